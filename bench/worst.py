"""Finds the most that any packet costs, on every target.     make figures ONLY=worst

It takes the control flow of the machine code from packets of all kinds. Each conditional branch
must go both ways in one of them, so that there is no other way. It recognises the two loops by how
often a request makes them turn: 8 times to compare the request, 256 times to sum a table.
dumpulse.c limits how often any packet makes them turn:

    packet                     compares    sums
    without the magic number     0 to 8       0    refused at the length or the first other byte
    with the magic number             0       4    refused, or a heartbeat
    a request                         8     256

On AVR, a turn of the sum takes longer if it reduces the second sum, which never happens in 4 turns,
and in 256 turns at most REDUCTIONS_MAX times.

The most is taken over all ways through the code that turn its loops at most that often. There may
be ways among them that no packet takes, so these costs are bounds. One of the packets must reach
the bound."""

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from bench import cost
from tools.processors import memory
from tools.processors.machine import SEND, TIME, Call, Machine, load
from tools.processors.targets import TARGETS
from tools.programs import as_program

AGENT = "dumpulse_process_packet"
KINDS = ("refused", "heartbeat", "report")  # Names of the results of dumpulse_process_packet.
COMPARE, SUM = 8, 256  # Turns of the two loops in a request.
# All that is added to the second sum is at most 256 + 256 * 257 / 2 * 255. Each reduction takes
# 65521 off again, so there are at most this many.
REDUCTIONS_MAX = (256 + 256 * 257 // 2 * 255) // 65521
# The most turns of each loop, and the hook that is called.
LIMITS = {"refused": [({COMPARE: 8, SUM: 0}, ""), ({COMPARE: 0, SUM: 4}, "")],
          "heartbeat": [({COMPARE: 0, SUM: 4}, TIME)],
          "report": [({COMPARE: 8, SUM: 256}, SEND)]}
START, END = -1, -2
DEPTH = 20000  # Limit of the recursion along a way; a report has 2,200 instructions.
Edge = tuple[int, int]
Weight = Callable[[Edge], int]
# Of the instructions that begin like a branch or a skip, those that have only one successor.
UNCONDITIONAL = "b bl blr bx j jal jalr jr jmp bic bics bfi bfc bswap bld bst".split()
BRANCH = re.compile(r"(?:c\.)?((?:b|j|cb|tb|cpse|sb[ir][cs])[a-z0-9]*)")


class Flow:
    """The control flow: which instruction follows which, and in which packets."""

    def __init__(self, machine: Machine) -> None:
        self.packets: list[tuple[str, Counter[Edge], int]] = []  # kind, steps and cost

        def run(_: Machine, packet: bytes, length: int = 8) -> Call:
            machine.write(machine.packet, packet)
            call, steps = machine.trace(AGENT, machine.agent, machine.packet, length, 0)
            edges = Counter(zip([START, *steps], [*steps, END], strict=True))
            self.packets.append((KINDS[call.result], edges, call.cost))
            return call

        cost.measure(machine, run)
        self.after: dict[int, set[int]] = {}
        for _, steps, _ in self.packets:
            for pc, to in steps:
                self.after.setdefault(pc, set()).add(to)
        self.code = {pc: machine.code[pc] for pc in sorted(self.after) if pc != START}
        mask = 0x1FFF if machine.target.machine == "Avr" else -1  # A call wraps around the flash.
        hooks = {machine.symbols[hook]: hook for hook in (TIME, SEND)}
        self.calls = {pc: hooks[goal & mask] for pc, words in self.code.items()
                      if (goal := memory.goal(words)) is not None and goal & mask in hooks}
        for pc, words in self.code.items():
            branch = BRANCH.match(words)
            ways = 2 if branch and branch[1] not in UNCONDITIONAL else 1
            if len(self.after[pc]) != ways:
                raise SystemExit(f"{machine.target.name}: {words} at {pc:x} has gone "
                                 f"{len(self.after[pc])} ways of {ways}")
        report = self.steps("report")
        turns: Counter[int] = Counter()
        for (pc, to), count in report.items():
            turns[to] += count
        self.turns = {head: turns[head] for pc, to in report if 0 <= (head := to) <= pc
                      and self.reaches(head, pc)}
        if sorted(self.turns.values()) != sorted((COMPARE, SUM)):
            raise SystemExit(
                f"{machine.target.name}: loops that this program does not know: {self.turns}")
        # What a heartbeat leaves out in the loop of the sum is the reduction.
        heads = {count: head for head, count in self.turns.items()}
        self.reducing = {
            (pc, to) for pc in self.code for to in self.after[pc]
            if to != END and to != heads[COMPARE] and (pc, to) not in self.steps("heartbeat")
            and self.reaches(heads[SUM], pc) and self.reaches(to, heads[SUM])}
        if machine.target.machine == "Avr" and not self.reducing:
            raise SystemExit(f"{machine.target.name}: the reduction of the sum was not found")

    def steps(self, kind: str) -> Counter[Edge]:
        """The steps of the first packet of this kind; the first report is of a table of zeros."""
        return next(steps for of_kind, steps, _ in self.packets if of_kind == kind)

    def reaches(self, start: int, goal: int) -> bool:
        seen, open_ = {start}, [start]
        while open_:
            open_ += (new := self.after.get(open_.pop(), set()) - seen)
            seen |= new
        return goal in seen


# The cycles of a Cortex-M0+ by table 3-1 of its technical reference manual, with memory that has no
# wait states. Where the table leaves a choice, loads and stores do not use the single-cycle port.
# The multiplier is the fast one: the small one takes 32 cycles.
M0_CYCLES = dict.fromkeys(
    "movs mov adds add subs muls cmp orrs lsls lsrs rev uxtb uxth nop".split(), 1)
M0_CYCLES |= dict.fromkeys("ldr ldrb strb b".split(), 2) | {"bl": 3}


def m0_cycles(flow: Flow, edge: Edge) -> int:
    """The cycles of the first instruction when the second one follows it."""
    pc, to = edge
    name, _, operands = flow.code[pc].partition(" ")
    name = name.split(".")[0]
    if name in ("push", "pop"):  # 1 + N; 3 + N where it returns
        return 1 + len(operands.split(",")) + (2 if "pc" in operands else 0)
    if name in M0_CYCLES:
        return M0_CYCLES[name]
    if len(name) == 3 and name[0] == "b":  # a conditional branch: 2 if it is taken
        return 1 + (to != min(following for following in flow.code if following > pc))
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
    name = flow.code[pc].split()[0]
    if name not in AVR_CYCLES:
        raise SystemExit(f"AVR: {name} is in no table here")
    if name in ("call", "rcall", "ret"):
        return AVR_CYCLES[name] + return_address - 2
    following = min(later for later in flow.code if later > pc)
    if name == "cpse":  # A skip takes a cycle more for each word of the skipped instruction.
        return AVR_CYCLES[name] + (to - following) // 2
    return AVR_CYCLES[name] + (name.startswith("br") and to != following)


def most(flow: Flow, limits: dict[int, int], hook: str, reduces: bool, weight: Weight) -> int:
    """The cost of the dearest way whose loops turn at most that often, and that calls this hook."""
    heads = list(flow.turns)
    allowed = [limits[flow.turns[head]] for head in heads]

    @functools.cache
    def rest(pc: int, turned: tuple[int, ...], called: str) -> int | None:
        """The most from an instruction to the end. `turned`: the turns of each loop before it;
        `called`: the hook."""
        if pc == END:
            return 0 if called == hook else None
        costs = []
        for to in flow.after[pc]:
            now = tuple(count + (to == head) for count, head in zip(turned, heads, strict=True))
            if all(map(int.__le__, now, allowed)) and (reduces or (pc, to) not in flow.reducing):
                remaining = rest(to, now, flow.calls.get(pc, called))
                if remaining is not None:
                    costs.append(remaining + (0 if pc == START else weight((pc, to))))
        return max(costs, default=None)

    sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    bound = rest(START, (0,) * len(heads), "")
    if bound is None:
        raise SystemExit(f"no way through the code that calls {hook or 'no hook'}")
    return bound


def bound_of(flow: Flow, kind: str, weight: Weight) -> int:
    bound = max(most(flow, *limits, False, weight) for limits in LIMITS[kind])
    if kind == "report" and flow.reducing:
        longer, rest_of_turns = divmod(most(flow, *LIMITS[kind][0], True, weight) - bound, SUM)
        if rest_of_turns:
            raise SystemExit("turns of the sum differ by more than a reduction")
        return bound + longer * REDUCTIONS_MAX
    return bound


def bounds(name: str) -> dict[str, dict[str, int]]:
    """The bounds by unit and kind of packet. Ends the program unless a packet has reached each, and
    what the steps of a packet cost is what its simulator has counted."""
    with closing(load(name)) as machine:
        flow, target, counted_unit = Flow(machine), machine.target, machine.cost_unit
    weights: dict[str, Weight] = {counted_unit: lambda edge: 1}
    if target.machine == "Avr":
        weights[counted_unit] = lambda edge: avr_cycles(flow, edge, target.return_address)
    if name == "Cortex-M0+":
        weights["cycles"] = lambda edge: m0_cycles(flow, edge)
    units = {}
    for unit, weight in weights.items():
        reached = dict.fromkeys(KINDS, 0)
        for kind, steps, counted in flow.packets:
            added = sum(weight(edge) * count for edge, count in steps.items() if edge[0] != START)
            if unit == counted_unit and added != counted:
                raise SystemExit(f"{name}: {added} {unit} of {counted} are in the steps")
            reached[kind] = max(reached[kind], added)
        units[unit] = {kind: bound_of(flow, kind, weight) for kind in KINDS}
        if units[unit] != reached:
            raise SystemExit(f"{name}: packets took {reached} {unit}, where the bounds are "
                             f"{units[unit]}")
    return units


def main() -> None:
    row = "{:<13}{:<13}{:>8}{:>11}{:>8}"
    print(row.format("target", "", *KINDS))
    for name in TARGETS:
        for unit, kinds in bounds(name).items():
            print(row.format(name, unit, *kinds.values()), flush=True)
    print("The most that any packet can take, whatever the table holds. The hooks are not counted. "
          "The\nbounds come from the control flow and from how often its loops turn. Cycles are "
          "added up by the\ndata sheet of the AVR and by Arm's table for the Cortex-M0+, for "
          "memory without wait states.")


if __name__ == "__main__":
    as_program(main)
