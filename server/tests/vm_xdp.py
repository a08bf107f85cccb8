"""Tests udpserver --xdp in a virtual machine, where the clock may be set; see test_xdp.py.

Its kernel is that of Debian 12, Linux 6.1: the oldest one that --xdp is for. Python is slow there,
so this needs no pytest. SPDX-License-Identifier: MIT"""

import time

from spec.model import REQUEST, heartbeat
from tests.support.network import Cable, frame, ipv4
from tests.support.programs import PATIENCE, as_program
from tests.support.servers import Server

TICK, JIFFY = 100, 10  # ms; a stamp may be a jiffy early
JUMPS = [0, 17, -40, 3, 4000, -4000, 9]  # s
FAR = 1  # of these are so far ahead that the ages have to be checked first: the heartbeat goes up


def main() -> None:
    with Cable() as cable, cable.node.raw() as frames, cable.node.udp() as asker:
        asker.settimeout(PATIENCE)
        with cable.agent.entered():
            server = Server("--bind", "10.77.0.1", "--allow", "10.77.0.0/24", "--xdp", "veth1",
                            "--tick", str(TICK))
        with server:
            for number, jump in enumerate(JUMPS):
                time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
                before = time.time_ns() // 1_000_000
                frames.send(frame(ipv4(heartbeat(number, 7, 1), server.port)))
                after = time.time_ns() // 1_000_000
                server.wait_for(lambda now, all=number + 1:  # type: ignore[misc]
                                now["heartbeats"] == all, "a heartbeat")
                asker.sendto(REQUEST, ("10.77.0.1", server.port))
                entry = asker.recv(1000)[4 + 4 * number:8 + 4 * number]
                stamp = int.from_bytes(entry[:2], "big")
                possible = range((before - JIFFY) // TICK, after // TICK + 1)
                assert stamp in [one % 65536 for one in possible], (jump, stamp, possible)
                assert entry[2:] == b"\7\1"
                time.sleep(0.5)  # so that the ages are checked at the new time
        up = cable.agent.received() - len(JUMPS)  # the requests go up
        assert up <= FAR, f"{up} heartbeats went up"
    print("vm_xdp: passed")


if __name__ == "__main__":
    as_program(main)
