"""Property tests: compares the C library with the model in spec/model.py.

    python3 -m pytest test_dumpulse.py

If a test fails, Hypothesis prints the steps that lead there, and a line that runs them again. The
examples are the same in every run. HYPOTHESIS_PROFILE=explore tries new ones, and many more."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spec.model import HEARTBEAT, REFUSED, REPORT, REQUEST, VARIABLES, Agent, heartbeat
from tools.programs import INCLUDES, ROOT

GUARD = b"\xe7" * 64

settings.register_profile("default", max_examples=100, stateful_step_count=40, deadline=None,
                          derandomize=True, database=None, print_blob=True)
settings.register_profile("explore", max_examples=3_000, stateful_step_count=80, deadline=None,
                          database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# The hooks call functions of Python. These only record: what they raised would get lost.
HOOKS = """
#include "dumpulse_serial.h"
uint16_t (*get_timestamp)(void);
void (*send_packet)(void *context, const uint8_t *packet, size_t length);
uint16_t dumpulse_get_timestamp(void) { return get_timestamp(); }
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    send_packet(context, packet, length);
}
uint8_t export_take_byte(dumpulse *agent, dumpulse_line *line, uint8_t byte, void *context)
{
    return dumpulse_take_byte(agent, line, byte, context);
}
"""
now = 0  # the clock's answer
calls: list[tuple[object, ...]] = []  # each call of a hook, with its arguments


def get_timestamp() -> int:
    calls.append(("time",))
    return now


def send_packet(context: int | None, packet: int, length: int) -> None:
    calls.append(("send", context or 0, packet, ctypes.string_at(packet, length)))


HOOKS_OF_C = {
    "get_timestamp": ctypes.CFUNCTYPE(ctypes.c_uint16)(get_timestamp),
    "send_packet": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                                    ctypes.c_size_t)(send_packet)}


def load_library(*parts: str) -> ctypes.CDLL:
    """Compiles C files and HOOKS, and loads them. Other processes may do the same at this moment,
    so each has a folder of its own, which nothing needs any more when the library is loaded."""
    with TemporaryDirectory(prefix="dumpulse-test-") as folder:
        path = Path(folder, "library.so")
        subprocess.run(["gcc", "-std=c99", "-Os", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
                        *INCLUDES, *parts, "-x", "c", "-", "-o", path], cwd=ROOT, check=True,
                       input=HOOKS, text=True)
        library = ctypes.CDLL(str(path))
    for name, hook in HOOKS_OF_C.items():
        ctypes.c_void_p.in_dll(library, name).value = ctypes.cast(hook, ctypes.c_void_p).value
    return library


C = load_library("dumpulse.c", "tests/exports.c")
C.dumpulse_process_packet.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
                                      ctypes.c_void_p]
C.export_record.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint8, ctypes.c_uint8]
C.export_read_entry.argtypes = [ctypes.c_char_p, ctypes.c_uint8, ctypes.c_void_p]
C.export_take_byte.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint8, ctypes.c_void_p]
C.dumpulse_process_packet.restype = C.export_record.restype = ctypes.c_uint8
C.export_take_byte.restype = ctypes.c_uint8
C.export_read_entry.restype = None

bytes_ = st.integers(0, 255)
times = st.integers(0, 65535)
tables = st.one_of(
    st.just(bytes(260)), st.just(b"\xff" * 260), st.binary(min_size=260, max_size=260),
    st.integers(0, 2**64).map(lambda seed: random.Random(seed).randbytes(260)))
heartbeats = st.builds(heartbeat, bytes_, bytes_, bytes_)
off_by_one = st.builds(heartbeat, st.sampled_from((63, 64, 65, 127, 128, 255)), bytes_, bytes_)


@st.composite
def near_misses(draw: st.DrawFn) -> bytes:
    """A good packet with some bytes changed, or shorter, or longer."""
    packet = bytearray(draw(st.one_of(heartbeats, st.just(REQUEST))))
    for _ in range(draw(st.integers(0, 2))):
        packet[draw(st.integers(0, 7))] ^= draw(bytes_)
    tail = draw(st.one_of(st.just(b""), st.binary(max_size=292)))
    return (bytes(packet)
            + tail)[:draw(st.integers(0, 300))] if draw(st.booleans()) else bytes(packet)


packets = st.one_of(heartbeats, off_by_one, st.just(REQUEST), near_misses(),
                    st.binary(max_size=300),
                    st.binary(min_size=8, max_size=8))


def overlapping(second: bytes, shared: int) -> bytes:
    """Two heartbeats. The last bytes of the first are the first ones of the second."""
    return heartbeat(*(bytes(3) + second[:shared])[-3:]) + second[shared:]


def set_clock(time: int) -> None:
    global now
    now = time
    calls.clear()


class Real:
    """An agent in C, with a guard on both sides of its memory."""

    def __init__(self, table: bytes = bytes(260)) -> None:
        self.memory = ctypes.create_string_buffer(GUARD + table + GUARD, 260 + 2 * len(GUARD))
        self.address = ctypes.addressof(self.memory) + len(GUARD)

    def table(self) -> bytes:
        raw = self.memory.raw
        assert raw.startswith(GUARD) and raw.endswith(GUARD), "written outside the agent"
        return raw[len(GUARD):-len(GUARD)]

    def process(self, time: int, packet: bytes, context: int) -> int:
        set_clock(time)
        return int(C.dumpulse_process_packet(self.address, packet, len(packet), context))

    def record(self, time: int, *values: int) -> int:
        set_clock(time)
        return int(C.export_record(self.address, *values))

    def expect_hooks(self, result: int, context: int) -> None:
        """Checks that the hooks that belong to the result were called once, and no others."""
        if result == REPORT:
            assert calls == [("send", context, self.address, self.table())]
            assert int.from_bytes(self.table()[:4], "big") == zlib.adler32(self.table()[4:])
        else:
            assert calls == [("time",)] * (result == HEARTBEAT)


class AgainstModel(RuleBasedStateMachine):
    """After any sequence of calls, the C library and the model have the same table."""

    @initialize(table=tables)
    def start(self, table: bytes) -> None:
        self.real, self.model = Real(table), Agent.of_table(table)
        self.line, self.fresh = ctypes.create_string_buffer(9), b""

    @rule(now=times, packet=packets, context=st.integers(0, 2**32))
    def packet(self, now: int, packet: bytes, context: int) -> None:
        expected = self.model.process(now, packet)
        assert self.real.process(now, packet, context) == expected
        self.real.expect_hooks(expected, context)

    @rule(now=times, variable=bytes_, sender=bytes_, value=bytes_)
    def record(self, now: int, variable: int, sender: int, value: int) -> None:
        expected = self.model.record(now, variable, sender, value)
        assert self.real.record(now, variable, sender, value) == expected
        self.real.expect_hooks(expected, 0)

    @rule(now=times, pieces=st.lists(st.one_of(packets, heartbeats, st.builds(
              overlapping, heartbeats, st.integers(1, 3))), max_size=4),
          context=st.integers(0, 2**32))
    def line_of_bytes(self, now: int, pieces: list[bytes], context: int) -> None:
        """Rule 1 of a serial line: the last 8 bytes, if none of them was in a packet before."""
        for byte in b"".join(pieces):
            self.fresh = (self.fresh + bytes([byte]))[-8:]
            expected = self.model.process(now, self.fresh)
            set_clock(now)
            assert C.export_take_byte(self.real.address, self.line, byte, context) == expected
            self.real.expect_hooks(expected, context)
            self.fresh = self.fresh if expected == REFUSED else b""

    @rule(fill=st.sampled_from((0, 1, 254, 255)), now=times, data=st.data())
    def fill_whole_table(self, fill: int, now: int, data: st.DataObject) -> None:
        entry = data.draw(st.one_of(st.just((fill, fill)), st.tuples(bytes_, bytes_)))
        for variable in range(VARIABLES):
            self.packet(now, heartbeat(variable, *entry), 0)
        self.packet(now, REQUEST, 1)

    @rule(variable=bytes_)
    def read(self, variable: int) -> None:
        entry = ctypes.create_string_buffer(4)
        C.export_read_entry(self.real.table(), variable, entry)
        assert entry.raw == (self.model.entries[variable] if variable < VARIABLES else bytes(4))

    @invariant()
    def same_table(self) -> None:
        if hasattr(self, "real"):
            assert self.real.table() == self.model.table()


TestAgainstModel = AgainstModel.TestCase


def test_a_length_is_not_cut_to_fewer_bits() -> None:
    real = Real()
    before = real.table()
    for length in (2**8 + 8, 2**16 + 8, 2**32 + 8, 2**64 - 8):
        calls.clear()
        packet = heartbeat(3, 76, 9)
        assert C.dumpulse_process_packet(real.address, packet, length, None) == REFUSED
        real.expect_hooks(REFUSED, 0)
        assert real.table() == before
