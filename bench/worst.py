"""Finds the least and the most that any packet costs, on every target.     make figures ONLY=worst

It takes the control flow of the machine code. It finds the loops there, and recognises each by how
often a request makes it turn: 8 times to compare the request, 256 times to sum a table. dumpulse.c
limits how often any packet makes them turn:

    packet                     compares    sums
    of another length                 0       0
    without the magic number     1 to 8       0    refused at the first other byte
    with the magic number             0       4
    a request                         8     256

On AVR, a turn of the sum takes longer if it reduces the second sum, which never happens in 4 turns,
and in 256 turns at most REDUCTIONS_MAX times.

The least and the most are taken over all ways through the code that turn its loops that often.
There may be ways among them that no packet takes, so these costs are bounds. Packets are run, too:
this checks that their ways are in the control flow, and that they reach the bounds and do not
exceed them."""

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

from bench import cost
from spec import model
from tools.processors import budgets, memory
from tools.processors.machine import SEND, TIME, Call, Machine, load
from tools.processors.targets import TARGETS, strangers
from tools.programs import as_program

AGENT = "dumpulse_process_packet"
KINDS = ("length", "magic", "sum", "variable", "heartbeat", "report")
RUN = {"length": "length", "magic": "magic", "request": "magic", "sum": "sum",
       "variable": "variable",
       "heartbeat": "heartbeat", "report": "report"}  # the kinds of cost.py
COMPARE, SUM = 8, 256  # Turns of the two loops in a request.
# All that is added to the second sum is at most 256 + 256 * 257 / 2 * 255. Each reduction takes
# 65521 off again, so there are at most this many.
REDUCTIONS_MAX = (256 + 256 * 257 // 2 * 255) // 65521
TURNS = {"length": {COMPARE: (0, 0), SUM: (0, 0)}, "magic": {COMPARE: (1, 8), SUM: (0, 0)},
         "sum": {COMPARE: (0, 0), SUM: (4, 4)}, "report": {COMPARE: (8, 8), SUM: (256, 256)}}
TURNS["variable"] = TURNS["heartbeat"] = TURNS["sum"]
START, END = -1, -2
DEPTH = 20000  # Limit of the recursion along a way; a report has 2,200 instructions.
Edge = tuple[int, int]
Range = tuple[int, int]


@dataclass
class Flow:
    """The control flow: which instruction may follow which."""

    names: dict[int, str] = field(default_factory=dict)
    operands: dict[int, str] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    hooks: dict[str, set[int]] = field(default_factory=lambda: {TIME: set(), SEND: set()})

    def into(self, pc: int) -> list[Edge]:
        return [edge for edge in self.edges if edge[1] == pc]

    def out_of(self, pc: int) -> list[Edge]:
        return [edge for edge in self.edges if edge[0] == pc]

    def reaches(self, start: int, goal: int) -> bool:
        seen, open_ = {start}, [start]
        while open_:
            open_ += (new := {to for _, to in self.out_of(open_.pop())} - seen)
            seen |= new
        return goal in seen

    def heads(self) -> set[int]:
        """The instructions at which loops begin."""
        return {to for pc, to in self.edges if 0 <= to <= pc and self.reaches(to, pc)}


@dataclass(frozen=True)
class Jumps:
    """How objdump writes the instructions that may be followed by another one than the next."""

    call: str
    always: str
    maybe: str
    home: str  # a return


JUMPS = {
    "Thumb": Jumps(r"bl ", r"b(\.[nw])? ", r"(b[a-z]{2}|cbn?z)(\.[nw])? ",
                   r"bx lr|pop .*pc|ldmia.* .*pc"),
    "Riscv": Jumps(r"jal ra,|c\.jal ", r"c\.j |jal zero,", r"(c\.)?b[a-z]+ ",
                   r"c\.jr ra|jalr zero,0\(ra\)"),
    "Amd64": Jumps(r"call ", r"jmp ", r"j[a-z]+ ", r"ret"),
    "Xtensa": Jumps(r"call0 ", r"j ", r"b[a-z]+[0-9]?[a-z]*(\.n)? ", r"ret"),
    "Avr": Jumps(r"r?call ", r"r?jmp ", r"br[a-z]{2} |cpse ", r"ret"),
    "PowerPC": Jumps(r"bl ", r"b ", r"b(dnz|[a-z]{2})[+-]? ", r"blr"),
}
JUMPS["I386"] = JUMPS["Amd64"]
PLAIN = r"bic|bf[ic]|bswap"  # these look like jumps, but are not


def read(machine: Machine) -> Flow:
    """Reads the control flow of the agent's function, and of the function of libgcc that it may
    jump to at its end."""
    flow, hooks = Flow(), {machine.symbols[hook]: hook for hook in (TIME, SEND)}
    following = dict(zip(machine.code, [*list(machine.code)[1:], END], strict=True))
    jumps = JUMPS[machine.target.machine]
    flow.edges.add((START, machine.symbols[AGENT]))
    open_ = [machine.symbols[AGENT]]
    while open_:
        pc = open_.pop()
        if pc in flow.names or pc == END:
            continue
        words = machine.code[pc]
        flow.names[pc], _, flow.operands[pc] = words.partition(" ")
        goal = memory.goal(words)
        if machine.target.machine == "Avr" and goal is not None:
            goal &= 0x1FFF  # A relative call wraps around 8 KB of flash.
        if flow.names[pc] == "cpse":  # It skips the next instruction.
            goal = following[following[pc]]
        if re.match(jumps.call, words) and goal in hooks:
            flow.hooks[hooks[goal]].add(pc)
            successors = [following[pc]]
        elif re.match(jumps.home, words):
            successors = [END]
        elif re.match(jumps.always, words) and goal is not None:
            successors = [goal]
        elif re.match(jumps.maybe, words) and not re.match(PLAIN, words) and goal is not None:
            successors = [following[pc], goal]
        elif re.match(r"b|cb|j|tb|call|c\.j|c\.b", words) and not re.match(PLAIN, words):
            raise SystemExit(f"{machine.target.name}: {words} at {pc:x}: its target is not known")
        else:
            successors = [following[pc]]
        flow.edges.update((pc, successor) for successor in successors)
        open_ += successors
    return flow


# The cycles of a Cortex-M0+ by table 3-1 of its technical reference manual, with memory that has no
# wait states. Where the table leaves a choice, loads and stores do not use the single-cycle port.
# The multiplier is the fast one: the small one takes 32 cycles.
M0_CYCLES = dict.fromkeys(
    "movs mov adds add subs muls cmp orrs lsls lsrs rev uxtb uxth nop".split(), 1)
M0_CYCLES |= dict.fromkeys("ldr ldrb strb b".split(), 2) | {"bl": 3}


def m0_cycles(flow: Flow, edge: Edge) -> int:
    """The cycles of the first instruction when the second one follows it."""
    pc, to = edge
    name, operands = flow.names[pc].split(".")[0], flow.operands[pc]
    if name in ("push", "pop"):  # 1 + N; 3 + N where it returns
        return 1 + len(operands.split(",")) + (2 if "pc" in operands else 0)
    if name in M0_CYCLES:
        return M0_CYCLES[name]
    if len(name) == 3 and name[0] == "b":  # a conditional branch: 2 if it is taken
        return 1 + (to != min(following for following in flow.names if following > pc))
    raise SystemExit(f"Cortex-M0+: {name} is in no table here")


# The cycles of an AVR by its data sheet. Calls and returns take one more if the program counter has
# three bytes.
AVR_CYCLES = dict.fromkeys(("add adc sub subi sbc sbci or eor cp cpc cpi mov movw ldi brne breq "
                            "brcc brcs cpse").split(), 1)
AVR_CYCLES |= dict.fromkeys("adiw sbiw ld ldd st std push pop rjmp".split(), 2)
AVR_CYCLES |= {"lpm": 3, "jmp": 3, "rcall": 3, "call": 4, "ret": 4}


def avr_cycles(flow: Flow, edge: Edge, return_address: int) -> int:
    """The cycles of the first instruction when the second one follows it."""
    pc, to = edge
    name = flow.names[pc]
    if name not in AVR_CYCLES:
        raise SystemExit(f"AVR: {name} is in no table here")
    if name in ("call", "rcall", "ret"):
        return AVR_CYCLES[name] + return_address - 2
    following = min(later for later in flow.names if later > pc)
    if name == "cpse":  # A skip takes a cycle more for each word of the skipped instruction.
        return AVR_CYCLES[name] + (to - following) // 2
    return AVR_CYCLES[name] + (name.startswith("br") and to != following)


def edges_of(machine: Machine, packet: bytes, length: int = 8) -> Counter[Edge]:
    """How often a packet takes each step, without the steps in the hooks."""
    machine.write(machine.packet, packet)
    seen = [START, *machine.steps(AGENT, machine.agent, machine.packet, length, 0), END]
    return Counter(zip(seen, seen[1:], strict=False))


def extremes(flow: Flow, kind: str, turns: dict[int, int], own: set[Edge], reducing: set[Edge],
             weight: Callable[[Edge], int]) -> Range:
    """The costs of the cheapest and of the dearest way that a packet of this kind may take."""
    after = {pc: [edge for edge in flow.out_of(pc) if kind == "report" or edge not in reducing]
             for pc in (START, *flow.names)}
    heads = list(turns)
    allowed = [TURNS[kind][turns[head]] for head in heads]
    called = {pc: hook for hook, callers in flow.hooks.items() for pc in callers}
    hooks_called = {"heartbeat": (TIME,), "report": (SEND,)}.get(kind, ())

    @functools.cache
    def rest(pc: int, turned: tuple[int, ...], hooks: tuple[str, ...], out: bool) -> Range | None:
        """The least and the most from an instruction to the end. `turned`: the turns of each loop
        before it; `hooks`: the calls before it."""
        if pc == END:
            enough = all(low <= count for count, (low, _) in zip(turned, allowed, strict=True))
            is_whole = enough and hooks == hooks_called and out == (kind == "variable")
            return (0, 0) if is_whole else None
        costs = []
        for edge in after[pc]:
            to = edge[1]
            now = tuple(count + (to == head) for count, head in zip(turned, heads, strict=True))
            if any(count > high for count, (_, high) in zip(now, allowed, strict=True)):
                continue
            # Where a loop begins, the loops before it are finished: each must have turned enough.
            if sum(map(bool, now)) > sum(map(bool, turned)) and any(
                    0 < count < low for count, (low, _) in zip(turned, allowed, strict=True)):
                continue
            calls = (*hooks, called[pc]) if pc in called else hooks
            if len(calls) <= 1 and (remaining := rest(to, now, calls, out or edge in own)):
                cost_here = 0 if pc == START else weight(edge)
                costs.append((cost_here + remaining[0], cost_here + remaining[1]))
        return (min(low for low, _ in costs), max(high for _, high in costs)) if costs else None

    sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    limits = rest(START, (0,) * len(heads), (), False)
    if limits is None:
        raise SystemExit(f"no way through the code for a {kind}")
    if kind == "report" and reducing:
        longer, rest_of_turns = divmod(limits[1] - limits[0], SUM)
        if rest_of_turns:
            raise SystemExit("turns of the sum differ by more than a reduction")
        return limits[0], limits[0] + longer * REDUCTIONS_MAX
    return limits


def by_flow(machine: Machine) -> dict[str, dict[str, Range]]:
    """The bounds by unit and kind, from the control flow."""
    flow = read(machine)
    machine.write(machine.agent, b"\xff" * 260)
    valid = model.heartbeat(3, 76, 9)
    runs = {"report": edges_of(machine, model.REQUEST), "heartbeat": edges_of(machine, valid),
            "length": edges_of(machine, valid, 7), "magic": edges_of(machine, b"AreyouO!"),
            "sum": edges_of(machine, valid[:7] + b"!"),
            "variable": edges_of(machine, model.heartbeat(64, 76, 9))}
    for kind, steps in runs.items():
        if strange := steps.keys() - flow.edges:
            raise SystemExit(
                f"{machine.target.name}: a {kind} takes steps that the listing does not have: "
                f"{strange}")
    turns = {head: sum(runs["report"][edge] for edge in flow.into(head)) for head in flow.heads()}
    if sorted(turns.values()) != sorted((COMPARE, SUM)):
        raise SystemExit(f"{machine.target.name}: loops that this program does not know: {turns}")
    # These steps refuse a variable that is out of range; a wrong checksum takes none of them.
    rejecting = set(runs["variable"]) - set(runs["sum"]) - set(runs["heartbeat"])
    [sum_head] = [head for head, count in turns.items() if count == SUM]
    # What a heartbeat leaves out in the loop of the sum is the reduction.
    reducing = {edge for edge in flow.edges if min(edge) >= 0 and edge not in runs["heartbeat"]
                and flow.reaches(sum_head, edge[0]) and flow.reaches(edge[1], sum_head)
                and turns.get(edge[1]) != COMPARE}
    weigh: dict[str, Callable[[Edge], int]] = {"instructions": lambda edge: 1}
    if machine.target.name == "Cortex-M0+":
        weigh["cycles"] = lambda edge: m0_cycles(flow, edge)
    if machine.target.machine == "Avr":
        if not reducing:
            raise SystemExit(f"{machine.target.name}: the reduction of the sum was not found")
        weigh = {"cycles": lambda edge: avr_cycles(flow, edge, machine.target.return_address)}
    return {unit: {kind: extremes(flow, kind, turns, rejecting, reducing, weight) for kind in KINDS}
            for unit, weight in weigh.items()}


def bounds(name: str) -> dict[str, dict[str, Range]]:
    """The bounds by unit and kind of packet."""
    with closing(load(name)) as machine:
        return by_flow(machine)


def in_cycles(flow: Flow, machine: Machine, packet: bytes, length: int = 8) -> Call:
    """What a packet costs on a Cortex-M0+, in cycles: the sum over the steps that it takes."""
    steps = edges_of(machine, packet, length)
    cycles = sum(m0_cycles(flow, edge) * count for edge, count in steps.items() if edge[0] != START)
    call = cost.process(machine, packet, length)
    if steps.total() - 1 != call.cost:
        raise SystemExit(f"{machine.target.name}: {steps.total() - 1} steps of {call.cost} "
                         "instructions were seen")
    return replace(call, cost=cycles)


def ran(machine: Machine, unit: str) -> dict[str, set[int]]:
    """The costs of the packets of `make figures ONLY=cost`, by kind."""
    run = cost.process if unit == machine.cost_unit else functools.partial(in_cycles, read(machine))
    reached: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for kind, calls in cost.measure(machine, run).items():
        reached[RUN[kind]].update(call.cost for call in calls)
    return reached


def check(name: str, units: dict[str, dict[str, Range]]) -> None:
    """Ends the program unless the packets that were run reach the bounds and do not exceed them,
    and no bound is over its budget."""
    for unit, limits in units.items():
        with closing(load(name)) as machine:
            reached = ran(machine, unit)
        for kind, costs in reached.items():
            if (min(costs), max(costs)) != limits[kind]:
                raise SystemExit(f"{name}: a {kind} took {min(costs)} to {max(costs)} {unit}, "
                                 f"where the bounds are {limits[kind][0]} and {limits[kind][1]}")
    for kind in ("heartbeat", "report") if TARGETS[name].key not in strangers() else ():
        budget, dearest = budgets.load()[TARGETS[name].key][kind], units[machine.cost_unit][kind][1]
        if dearest > budget:
            raise SystemExit(
                f"{name}: a {kind} may take {dearest} {machine.cost_unit}; its budget is {budget}")


def show(limits: Range) -> str:
    return str(limits[0]) if limits[0] == limits[1] else f"{limits[0]}-{limits[1]}"


def main() -> None:
    row = "{:<13}{:<13}{:>8}{:>9}{:>9}{:>10}{:>11}{:>11}"
    print(f"{'':<26}{'|':>2}{'refused for its':^34}|")
    print(row.format("target", "", *KINDS))
    table: dict[str, dict[str, str]] = {}
    for target in TARGETS.values():
        units = bounds(target.name)
        check(target.name, units)
        for unit, kinds in units.items():
            cells = {kind: show(kinds[kind]) for kind in KINDS}
            table[f"{target.name} {unit}"] = cells
            print(row.format(target.name, unit, *cells.values()), flush=True)
    print("The least and the most that any packet can take, whatever the table holds. The hooks "
          "are not\ncounted. magic: a packet of 8 bytes that has no magic number and is not a "
          "request. The bounds come\nfrom the control flow and from how often its loops turn. "
          "Cycles are added up by the data sheet\nof the AVR and by Arm's table for the "
          "Cortex-M0+, for memory without wait states.")


if __name__ == "__main__":
    as_program(main)
