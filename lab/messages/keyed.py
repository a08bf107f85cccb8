"""What keys cost beside version 1, and beside other tags.    make figures ONLY=lab-keyed

The figures of version 1 and 2 are those of performance.md, and the others those of counts.tsv.
SPDX-License-Identifier: MIT"""

from bench import budgets
from lab.messages import counts
from lab.messages.schemes import SCHEMES
from tests.support.programs import ROOT, as_program

KEYED = ROOT / "bench" / "budgets_keyed.tsv"
MACHINES = {"ATmega328P": "ATmega328P, gcc 5.4", "Cortex-M0+": "Cortex-M0+, gcc 12.2"}
OTHERS = ("Chaskey-12", "SipHash-2-4", "AES-128-CMAC", "HMAC-SHA-256")
ROW = "{:<28}{:>6}{:>9}{:>9}{:>8}{:>6}  {}"


EXPLAINED = """\
bytes: of a heartbeat with its tag. node, agent: cycles on the ATmega328P, instructions on the
Cortex-M0+, to make a heartbeat or its tag, and to take it. flash, RAM: bytes that the agent needs
more than with version 1. Version 2 counts with all of its rules. The rows below it are a tag
alone, of 8 bytes, with a key that is ready: a counter that survives a reset, and what decides
what is new, would come on top."""


def rows(machine: str) -> list[str]:
    known = counts.read()
    version_1 = budgets.load()[MACHINES[machine]]
    version_2 = budgets.load(KEYED)[MACHINES[machine]]

    def count(scheme: str, by: str, step: str) -> counts.Count:
        return known[scheme, by, step, "4", machine]

    lines = [ROW.format(machine, "bytes", "node", "agent", "flash", "RAM", "refuses"),
             ROW.format("version 1", 8, f"{count('Adler-32', 'ours', 'make').mean:,}",
                        f"{version_1['heartbeat']:,}", 0, 0, "accidents")]
    take = version_2["heartbeat"] + version_2["label_key"]  # the key is made for each packet
    lines.append(ROW.format("version 2", 8, f"{version_2['beat']:,}", f"{take:,}",
                            f"{version_2['agent'] - version_1['bytes']:,}", version_2["ram"],
                            "forged, repeated, late"))
    for scheme in OTHERS:  # by the best code that the lab has for this machine
        by = min((one for one in SCHEMES if one.name == scheme and machine in one.targets),
                 key=lambda one: count(scheme, one.by, "make").mean)
        accept = count(scheme, by.by, "accept")
        lines.append(ROW.format(by.title, 12, f"{count(scheme, by.by, 'make').mean:,}",
                                f"{accept.mean:,}", f"{accept.flash:,}", accept.ram, "forged"))
    return lines


def main() -> None:
    for machine in MACHINES:
        print(*rows(machine), "", sep="\n")
    print(EXPLAINED)


if __name__ == "__main__":
    as_program(main)
