"""Tests udpserver --xdp where the clock may be set. tests/test_xdp.py runs this in a virtual machine.

Its kernel is that of Debian 12, Linux 6.1: the oldest one that --xdp is for.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import time

import pytest

from sim.model import heartbeat
from sim.network import Cable
from tests.test_xdp import XDP, ask, beat, cable, counted, serve, test_what_is_taken_in_the_kernel

__all__ = ["cable", "test_what_is_taken_in_the_kernel"]  # these run here, too


@pytest.mark.parametrize("tick", [10, 100])
def test_a_clock_that_is_set(cable: Cable, tick: int) -> None:
    """The first heartbeat after that has the new time. Stamps may be a jiffy early."""
    jumps = [17, -40, 3, 4000, -4000, 90]  # s; the long ones end the time until the ages are checked
    with serve(cable, *XDP, "--tick", f"{tick}") as server:
        for number, jump in enumerate(jumps):
            time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
            before = time.time_ns() // 1_000_000
            beat(cable, server, heartbeat(number, 7, 1))
            after = time.time_ns() // 1_000_000
            counted(server, number + 1)
            stamp = int.from_bytes(ask(cable, server.port)[number][:2], "big")
            assert stamp in [one % 65536 for one in range((before - 10) // tick, after // tick + 1)]
            time.sleep(0.4)
        assert cable.agent.received() < 2 * len(jumps)  # with the requests
