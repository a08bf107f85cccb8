"""Counts udpserver's instructions for packets in valgrind, on amd64 and i386.

    make figures ONLY=instructions

Packets come one by one, each when the server sleeps. Or all of them wait when the server starts, in
as many sockets as are needed to hold them. Reports are asked for first, while the table is empty:
later the checksum depends on the time."""

import functools
import math
from concurrent.futures import ThreadPoolExecutor

from bench import callgrind
from bench.callgrind import ROOM, agreed, serve
from spec.model import REQUEST, heartbeat
from tools.processors import budgets
from tools.processors.targets import TARGETS
from tools.programs import as_program, built

PROGRAMS = {"amd64": "build/udpserver", "i386": "build/udpserver-i386"}
# By (reports, heartbeats): the figures published for the first implementation, on amd64.
PUBLISHED = {(0, 0): 159_931, (0, 1): 161_006, (0, 10): 162_158, (0, 1000): 288_878,
             (1, 0): 165_158, (1, 1000): 294_105}
NOISE = bytes.fromhex("0123456789abcdef")  # like most random packets, it has no magic number
HERE = "127.0.0.1"


@functools.cache
def measure(architecture: str, queued: bool, reports: int, heartbeats: int, sockets: int = 0,
            noise: int = 0) -> int:
    """Returns the instructions of main()."""
    packets = [(REQUEST, HERE)] * reports + [(heartbeat(i % 64, 76, i % 256), HERE)
                                             for i in range(heartbeats)] + [(NOISE, HERE)] * noise
    sockets = sockets or math.ceil(max(1, len(packets) if queued else 1) / ROOM)
    return agreed(lambda: serve(built(PROGRAMS[architecture]), packets, queued=queued,
                                sockets=sockets).main)


def more_than_none(architecture: str, queued: bool, reports: int, heartbeats: int) -> int:
    sockets = math.ceil((reports + heartbeats) / ROOM) if queued else 1
    return (measure(architecture, queued, reports, heartbeats)
            - measure(architecture, False, 0, 0, sockets))


def another(architecture: str, queued: bool) -> dict[str, int]:
    """Returns what one more heartbeat, report or random packet costs: of most, the third one's.
    Some reports cost more to copy than others, because of their place in memory: so for reports it
    is the mean of eight, rounded up."""
    third = measure(architecture, queued, 0, 3) - measure(architecture, queued, 0, 2)
    noise = measure(architecture, queued, 0, 0, 1, 3) - measure(architecture, queued, 0, 0, 1, 2)
    eight = measure(architecture, queued, 10, 0) - measure(architecture, queued, 2, 0)
    return {"heartbeat": third, "report": math.ceil(eight / 8), "noise": noise}


def name(reports: int, heartbeats: int) -> str:
    parts = [(reports, "report"), (heartbeats, "heartbeat")]
    return " + ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in parts if count)


def main() -> None:
    setups = [(architecture, queued) for architecture in PROGRAMS for queued in (False, True)]
    heads = [f"{architecture} {'queued' if queued else 'one by one'}"
             for architecture, queued in setups]
    for program in PROGRAMS.values():
        built(program)  # here, because two threads must not build it at the same time
    with ThreadPoolExecutor(2) as pool:  # two at a time; measure() keeps the results for later
        list(pool.map(lambda one: measure(*one), [(*setup, *packets) for packets in
                      ((0, 1000), (1, 1000), (0, 10), (0, 3), (0, 2), (10, 0), (2, 0))
                      for setup in setups]))
    table: dict[str, dict[str, object]] = {}
    for (reports, heartbeats), total in PUBLISHED.items():
        if reports + heartbeats:
            table[name(reports, heartbeats)] = {"published": total - PUBLISHED[0, 0], **{
                head: more_than_none(*setup, reports, heartbeats)
                for head, setup in zip(heads, setups, strict=True)}}
    next_packet = {head: another(*setup) for head, setup in zip(heads, setups, strict=True)}
    table["another heartbeat"] = {"published": 128,
                                  **{head: next_packet[head]["heartbeat"] for head in heads}}
    table["another report"] = {"published": "-",
                               **{head: next_packet[head]["report"] for head in heads}}
    table["another of noise"] = {"published": "-",
                                 **{head: next_packet[head]["noise"] for head in heads}}
    row = "{:<24}{:>10}" + "{:>17}" * 4
    print(row.format("more than with no packet", "published", *heads))
    for number, (what, cells) in enumerate(table.items()):
        print(row.format(what, *cells.values()))
    budgets.enforce(
        {TARGETS[architecture].key: {
            "udp_heartbeat": next_packet[f"{architecture} queued"]["heartbeat"],
            "udp_report": next_packet[f"{architecture} queued"]["report"],
            "udp_alone": next_packet[f"{architecture} one by one"]["heartbeat"]}
         for architecture in PROGRAMS}, ("udp_heartbeat", "udp_report", "udp_alone"))


if __name__ == "__main__":
    as_program(main)
