"""Finds the least and the most that any packet costs, on every target.     make figures ONLY=worst

On AVR, it takes the costs of all paths that `make figures ONLY=paths` follows, with all packets and
tables at once. On other targets it takes the control flow of the machine code. It finds the loops
there, and recognises each by how often a request makes it turn: 8 times to compare the request, 256
times to sum a table. dumpulse.c limits how often any packet makes them turn:

    packet                     compares    sums
    of another length                 0       0
    without the magic number     1 to 8       0    refused at the first other byte
    with the magic number             0       4
    a request                         8     256

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

import z3

from bench import cost
from proof.avr import agent
from proof.avr.machine import RAM_BYTES, Code, State, explore
from proof.avr.symbols import feasible, unknown, vector
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
COMPARE, SUM = 8, 256  # how often a request turns the two loops
TURNS = {"length": {COMPARE: (0, 0), SUM: (0, 0)}, "magic": {COMPARE: (1, 8), SUM: (0, 0)},
         "sum": {COMPARE: (0, 0), SUM: (4, 4)}, "report": {COMPARE: (8, 8), SUM: (256, 256)}}
TURNS["variable"] = TURNS["heartbeat"] = TURNS["sum"]
START, END = -1, -2
DEPTH = 20000  # of the recursion along a way; a report has 2,200 instructions
Edge = tuple[int, int]
Range = tuple[int, int]


@dataclass
class Flow:
    """The control flow: which instruction may follow which."""

    names: dict[int, str] = field(default_factory=dict)
    operands: dict[int, str] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    hooks: dict[str, set[int]] = field(default_factory=lambda: {TIME: set(), SEND: set()})

    def into(self, at: int) -> list[Edge]:
        return [edge for edge in self.edges if edge[1] == at]

    def out_of(self, at: int) -> list[Edge]:
        return [edge for edge in self.edges if edge[0] == at]

    def reaches(self, start: int, goal: int) -> bool:
        seen, open_ = {start}, [start]
        while open_:
            open_ += (new := {to for _, to in self.out_of(open_.pop())} - seen)
            seen |= new
        return goal in seen

    def heads(self) -> set[int]:
        """The instructions at which loops begin."""
        return {to for at, to in self.edges if 0 <= to <= at and self.reaches(to, at)}


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
        at = open_.pop()
        if at in flow.names or at == END:
            continue
        words = machine.code[at]
        flow.names[at], _, flow.operands[at] = words.partition(" ")
        goal = memory.goal(words)
        if re.match(jumps.call, words) and goal in hooks:
            flow.hooks[hooks[goal]].add(at)
            successors = [following[at]]
        elif re.match(jumps.home, words):
            successors = [END]
        elif re.match(jumps.always, words) and goal is not None:
            successors = [goal]
        elif re.match(jumps.maybe, words) and not re.match(PLAIN, words) and goal is not None:
            successors = [following[at], goal]
        elif re.match(r"b|cb|j|tb|call|c\.j|c\.b", words) and not re.match(PLAIN, words):
            raise SystemExit(f"{machine.target.name}: {words} at {at:x}: its target is not known")
        else:
            successors = [following[at]]
        flow.edges.update((at, successor) for successor in successors)
        open_ += successors
    return flow


# The cycles of a Cortex-M0+ by table 3-1 of its technical reference manual, with memory that has no
# wait states. Where the table leaves a choice, loads and stores do not use the single-cycle port,
# and the multiplier is the fast one (the small one takes 32 cycles).
M0_CYCLES = dict.fromkeys(
    "movs mov adds add subs muls cmp orrs lsls lsrs rev uxtb uxth nop".split(), 1)
M0_CYCLES |= dict.fromkeys("ldr ldrb strb b".split(), 2) | {"bl": 3}


def m0_cycles(flow: Flow, edge: Edge) -> int:
    """The cycles of the first instruction when the second one follows it."""
    at, to = edge
    name, operands = flow.names[at].split(".")[0], flow.operands[at]
    if name in ("push", "pop"):  # 1 + N; 3 + N where it returns
        return 1 + len(operands.split(",")) + (2 if "pc" in operands else 0)
    if name in M0_CYCLES:
        return M0_CYCLES[name]
    if len(name) == 3 and name[0] == "b":  # a conditional branch: 2 if it is taken
        return 1 + (to != min(following for following in flow.names if following > at))
    raise SystemExit(f"Cortex-M0+: {name} is in no table here")


def edges_of(machine: Machine, packet: bytes, length: int = 8) -> Counter[Edge]:
    """How often a packet takes each step, without the steps in the hooks."""
    machine.write(machine.packet, packet)
    seen = [START, *machine.steps(AGENT, machine.agent, machine.packet, length, 0), END]
    return Counter(zip(seen, seen[1:], strict=False))


def extremes(flow: Flow, kind: str, turns: dict[int, int], own: set[Edge],
             weight: Callable[[Edge], int]) -> Range:
    """The costs of the cheapest and of the dearest way that a packet of this kind may take."""
    after = {at: flow.out_of(at) for at in (START, *flow.names)}
    heads = list(turns)
    allowed = [TURNS[kind][turns[head]] for head in heads]
    called = {at: hook for hook, callers in flow.hooks.items() for at in callers}
    wanted = {"heartbeat": (TIME,), "report": (SEND,)}.get(kind, ())

    @functools.cache
    def rest(at: int, turned: tuple[int, ...], hooks: tuple[str, ...], out: bool) -> Range | None:
        """The least and the most from an instruction to the end. `turned`: the turns of each loop
        before it; `hooks`: the calls before it."""
        if at == END:
            enough = all(low <= count for count, (low, _) in zip(turned, allowed, strict=True))
            return (0, 0) if enough and hooks == wanted and out == (kind == "variable") else None
        costs = []
        for edge in after[at]:
            to = edge[1]
            now = tuple(count + (to == head) for count, head in zip(turned, heads, strict=True))
            if any(count > high for count, (_, high) in zip(now, allowed, strict=True)):
                continue
            # Where a loop begins, the loops before it are finished: each must have turned enough.
            if sum(map(bool, now)) > sum(map(bool, turned)) and any(
                    0 < count < low for count, (low, _) in zip(turned, allowed, strict=True)):
                continue
            calls = (*hooks, called[at]) if at in called else hooks
            if len(calls) <= 1 and (more := rest(to, now, calls, out or edge in own)):
                cost_here = 0 if at == START else weight(edge)
                costs.append((cost_here + more[0], cost_here + more[1]))
        return (min(low for low, _ in costs), max(high for _, high in costs)) if costs else None

    sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    found = rest(START, (0,) * len(heads), (), False)
    if found is None:
        raise SystemExit(f"no way through the code for a {kind}")
    return found


def by_flow(machine: Machine) -> dict[str, dict[str, Range]]:
    """The bounds by unit and kind, from the control flow."""
    flow = read(machine)
    machine.write(machine.agent, b"\xff" * 260)
    good = model.heartbeat(3, 76, 9)
    runs = {"report": edges_of(machine, model.REQUEST), "heartbeat": edges_of(machine, good),
            "length": edges_of(machine, good, 7), "magic": edges_of(machine, b"AreyouO!"),
            "sum": edges_of(machine, good[:7] + b"!"),
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
    own = set(runs["variable"]) - set(runs["sum"]) - set(runs["heartbeat"])
    weigh: dict[str, Callable[[Edge], int]] = {"instructions": lambda edge: 1}
    if machine.target.name == "Cortex-M0+":
        weigh["cycles"] = lambda edge: m0_cycles(flow, edge)
    return {unit: {kind: extremes(flow, kind, turns, own, weight) for kind in KINDS}
            for unit, weight in weigh.items()}


def by_paths(machine: Machine) -> dict[str, dict[str, Range]]:
    """The bounds on AVR, in cycles. It finds out for each path which kinds of packets take it."""
    code = Code(machine, pushed=machine.target.return_address)
    world = agent.World(machine.agent, machine.packet, machine.ram + RAM_BYTES - 1,
                        unknown("table", 260), unknown("packet", 8), unknown("length", 2),
                        unknown("context", 2))
    start = world.process(code, machine.symbols[AGENT])
    eight = z3.And(vector(world.length[0]) == 8, vector(world.length[1]) == 0)
    magic = vector(world.bytes[4]) == model.MAGIC
    in_range = z3.ULT(vector(world.bytes[5]), model.VARIABLES)
    # A heartbeat with a variable below 64 can only be refused for its checksum.
    refused = {"length": [z3.Not(eight)], "magic": [eight, z3.Not(magic)],
               "sum": [eight, magic, in_range]}
    found: dict[str, list[State]] = {kind: [] for kind in KINDS}
    for state in explore(code, start):
        kind = {model.HEARTBEAT: "heartbeat", model.REPORT: "report"}.get(state.registers[24])
        kinds = [kind] if kind else [kind for kind, meaning in refused.items()
                                     if feasible(*state.conditions, *meaning)]
        for kind in kinds or ["variable"]:
            found[kind].append(state)
    # `make figures ONLY=paths` proves that all of them are equal.
    extra = max(longer for state in found["report"] for longer in state.longer)
    return {"cycles": {kind: agent.bounds(states, extra) for kind, states in found.items()}}


def bounds(name: str) -> dict[str, dict[str, Range]]:
    """The bounds by unit and kind of packet."""
    with closing(load(name)) as machine:
        return by_paths(machine) if TARGETS[name].machine == "Avr" else by_flow(machine)


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
        budget, most = budgets.load()[TARGETS[name].key][kind], units[machine.cost_unit][kind][1]
        if most > budget:
            raise SystemExit(
                f"{name}: a {kind} may take {most} {machine.cost_unit}; its budget is {budget}")


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
          "request. On AVR, every\npath was followed. On other targets, the bounds come from the "
          "control flow and from how often\nits loops turn. Cortex-M0+ cycles: computed from Arm's "
          "table, for memory without wait states.")


if __name__ == "__main__":
    as_program(main)
