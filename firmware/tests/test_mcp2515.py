"""Compares the model of the MCP2515 with its data sheet, DS20001801. Addresses and bits are numbers
here. They were read from the tables of the data sheet a second time, so a wrong constant in the
model cannot agree with itself."""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from tools.programs import ROOT

MODEL = ROOT / "firmware/simulators/mcp2515.c"


class Frame(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint32), ("extended", ctypes.c_bool), ("remote", ctypes.c_bool),
                ("length", ctypes.c_uint8), ("data", ctypes.c_uint8 * 8))


class Chip:
    """The model after power-on, with a method for each of its functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._state = ctypes.create_string_buffer(b"\xa5" * 1024, 1024)  # more than its struct
        self.do("reset")
        self.do("pass", ctypes.c_uint64(128))

    def do(self, name: str, *values: object) -> int:
        return int(getattr(self._library, f"mcp2515_{name}")(self._state, *values))

    def spi(self, *out: int) -> list[int]:
        """One instruction: sends bytes, and returns the bytes that come back."""
        self.do("select", True)
        back = [self.do("spi", byte) & 0xFF for byte in out]
        self.do("select", False)
        return back

    def get(self, address: int) -> int:
        return self.spi(0x03, address, 0)[2]

    def mode(self, bits: int) -> None:
        self.spi(0x05, 0x0F, 0xE0, bits)
        self.do("bus_rests")

    def bring(self, number: int, data: bytes = b"", extended: bool = False,
              remote: bool = False) -> None:
        text = (ctypes.c_uint8 * 8)(*(b"" if remote else data))
        self.do("receive", ctypes.byref(Frame(number, extended, remote, len(data), text)))

    def pending(self) -> Frame | None:
        frame = Frame()
        return frame if self.do("pending", ctypes.byref(frame)) & 1 else None


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("model") / "mcp2515.so"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-fsanitize=undefined",
                    "-fsanitize-undefined-trap-on-error", "-Wall", "-Wextra", "-Werror", MODEL,
                    "-o", made], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture
def chip(library: ctypes.CDLL) -> Chip:
    return Chip(library)


@pytest.mark.parametrize("by_instruction", [False, True])
def test_hold(chip: Chip, by_instruction: bool) -> None:
    """Section 8.1: the controller takes no SPI for 128 periods of its oscillator after power-on,
    and after a RESET, which ends when chip select rises. It also ignores an instruction that began
    before the end of this time."""
    if by_instruction:
        chip.do("select", True)
        chip.do("spi", 0xC0)
        chip.do("pass", ctypes.c_uint64(1000))
        chip.do("select", False)
    else:
        chip.do("reset")
    chip.spi(0x02, 0x2B, 0x11)
    chip.do("pass", ctypes.c_uint64(127))
    chip.spi(0x02, 0x2B, 0x22)
    assert chip.get(0x0E) == 0xFF  # nothing drives the line
    chip.do("select", True)
    chip.do("pass", ctypes.c_uint64(1))
    for byte in (0x02, 0x2B, 0x33):
        chip.do("spi", byte)
    chip.do("select", False)
    assert chip.get(0x2B) == 0
    chip.spi(0x02, 0x2B, 0x44)
    assert chip.get(0x2B) == 0x44


# Registers that can be written in configuration mode only, and the bits that they have.
CONFIGURED = {0x00: 0xFF, 0x01: 0xEB, 0x0B: 0xFF, 0x10: 0xFF, 0x19: 0xEB, 0x1B: 0xFF, 0x20: 0xFF,
              0x21: 0xE3, 0x25: 0xE3, 0x27: 0xFF, 0x28: 0xC7, 0x29: 0xFF, 0x2A: 0xFF}


def test_modes(chip: Chip) -> None:
    for mode in (0x00, 0x60, 0x80):
        chip.mode(mode)
        assert chip.get(0x0E) & 0xE0 == mode
        if mode == 0x80:  # still the reset values
            assert not any(chip.get(at) for at in range(0x2B) if at & 0x0F < 0x0C)
        for at, bits in CONFIGURED.items():
            chip.spi(0x02, at, 0xFF)
            assert chip.get(at) == (bits if mode == 0x80 else 0)
    chip.spi(0x02, 0x1C, 9, 9)  # counters of errors cannot be written
    chip.spi(0x02, 0x2D, 0x3F)  # nor states of errors
    assert chip.get(0x1C) | chip.get(0x1D) | chip.get(0x2D) == 0


def test_when_a_mode_begins(chip: Chip) -> None:
    """Section 10.0: a mode begins when all requested frames are sent; OPMOD shows it. The normal
    mode also waits until the bus has rested. Configuration mode clears the error counters."""
    chip.spi(0x05, 0x0F, 0xE0, 0)
    assert (chip.get(0x0E) & 0xE0, chip.get(0x0F) & 0xE0) == (0x80, 0)
    chip.do("bus_rests")
    assert chip.get(0x0E) & 0xE0 == 0
    chip.spi(0x81)
    chip.do("begin")
    chip.mode(0x80)
    assert chip.get(0x0E) & 0xE0 == 0
    chip.do("send_failed", False)
    assert chip.get(0x1C) == 8
    chip.do("sent")
    assert (chip.get(0x0E) & 0xE0, chip.get(0x1C)) == (0x80, 0)


def test_taken_back(chip: Chip) -> None:
    """Section 3.6: a frame on the bus goes on although its request is taken back. Its buffer cannot
    be written until the frame ends. If it fails, it is not tried again."""
    chip.mode(0)
    for fails in (False, True):
        chip.spi(0x40, 0xD0, 0x60, 0, 0, 1, ord("a"))
        chip.spi(0x81)
        chip.do("begin")
        chip.spi(0x05, 0x30, 0x08, 0)
        assert chip.get(0x30) & 0x08
        chip.spi(0x40, 0xD0, 0x60, 0, 0, 1, ord("b"))
        frame = chip.pending()
        assert frame and frame.data[0] == ord("a")
        chip.do(*(("send_failed", True) if fails else ("sent",)))
        assert not chip.pending()
        assert chip.get(0x30) & 0x48 == (0x40 if fails else 0)
        assert chip.get(0x2C) & 0x04 == (0 if fails else 0x04)
        chip.spi(0x02, 0x2C, 0)
    chip.spi(0x40, 0xD0, 0x60, 0, 0, 1, ord("b"))
    chip.spi(0x81)
    frame = chip.pending()
    assert frame and frame.data[0] == ord("b")


@pytest.mark.parametrize(("number", "extended", "remote", "kept"), [
    (0x683, False, False, (0xD0, 0x60, 0, 0, 2)), (0x683, False, True, (0xD0, 0x70, 0, 0, 2)),
    (0x18FE5083, True, False, (0xC7, 0xEA, 0x50, 0x83, 2)),
    (0x18FE5083, True, True, (0xC7, 0xEA, 0x50, 0x83, 0x42))])
def test_receiving(chip: Chip, number: int, extended: bool, remote: bool,
                   kept: tuple[int, ...]) -> None:
    """The bytes of a frame in a receive buffer, and what READ RX BUFFER gives."""
    chip.spi(0x02, 0x60, 0x60)  # RXM: any frame
    chip.mode(0)
    chip.bring(number, b"xy", extended, remote)
    assert chip.get(0x60) & 0x08 == 8 * remote
    back = chip.spi(0x90, 0, 0, 0, 0, 0, 0, 0)
    assert tuple(back[1:6]) == kept and (remote or bytes(back[6:]) == b"xy")
    assert chip.get(0x2C) == 0  # chip select rose: RX0IF is cleared


def test_filters_of_both_buffers(chip: Chip) -> None:
    """Filters 0 and 1 with mask 0 lead to buffer 0, 2 to 5 with mask 1 to buffer 1. EXIDE is not
    set: they are for standard frames only."""
    chip.spi(0x02, 0x20, 0xFF, 0xE0, 0, 0)
    chip.spi(0x02, 0x24, 0xFF, 0xE0, 0, 0)
    for number, at in enumerate((0x00, 0x04, 0x08, 0x10, 0x14, 0x18)):
        chip.spi(0x02, at, 0x10 * (number + 1), 0, 0, 0)
    chip.mode(0)
    for number in range(6):
        wanted = 0x80 * (number + 1)
        chip.bring(wanted + 1)
        chip.bring(wanted << 18, extended=True)
        assert chip.get(0x2C) == 0
        chip.bring(wanted)
        assert chip.get(0x2C) == (1 if number < 2 else 2)
        assert chip.get(0x60 if number < 2 else 0x70) & 0x07 == number  # FILHIT
        chip.spi(0x02, 0x2C, 0)


def test_bytes_of_filters(chip: Chip) -> None:
    def use(mask: tuple[int, ...], *filters: int) -> None:
        chip.mode(0x80)
        chip.spi(0x02, 0x20, *mask)
        for at in (0x00, 0x04):
            chip.spi(0x02, at, *filters)
        chip.mode(0)

    chip.spi(0x02, 0x24, 0xFF, 0xE0, 0, 0)  # buffer 1 takes identifier 0 alone
    use((0xFF, 0xE3, 0xFF, 0x00), 0xC7, 0xEA, 0x50, 0x80)  # extended, its last byte masked
    chip.bring(0x18FE5083, extended=True)
    assert chip.get(0x2C) == 1
    chip.spi(0x02, 0x2C, 0)
    chip.bring(0x18FE5183, extended=True)
    chip.bring(0x18FE5083 >> 18)
    assert chip.get(0x2C) == 0
    # Of a standard frame, EID 15 to 0 are compared with two bytes of data.
    use((0xFF, 0xE0, 0xFF, 0x00), 0x10, 0, ord("x"), 0)
    chip.bring(0x80, b"yz")
    assert chip.get(0x2C) == 0
    chip.bring(0x80, b"xz")
    assert chip.get(0x2C) == 1
    chip.spi(0x02, 0x2C, 0)
    use((0xFF, 0xE3, 0, 0), 0x10, 0x03, 0, 0)  # EID 17 and 16 are compared with nothing
    chip.mode(0x80)
    chip.spi(0x02, 0x24, 0, 0, 0, 0)  # mask 1 lets everything through to buffer 1, by filter 2
    chip.mode(0)
    chip.bring(0x80)
    assert chip.get(0x2C) == 1
    chip.bring(0x81)
    assert (chip.get(0x2C), chip.get(0x70) & 0x07) == (3, 2)


def test_roll_over(chip: Chip) -> None:
    """Without BUKT a second frame is lost; with it, it rolls over, and only a third is. Buffer 1
    has filters of its own, for 0x7F8."""
    chip.spi(0x02, 0x70, 0x00)
    chip.spi(0x02, 0x24, 0xFF, 0xE0, 0, 0)
    for at in (0x08, 0x10, 0x14, 0x18):
        chip.spi(0x02, at, 0xFF, 0, 0, 0)
    chip.mode(0)
    chip.bring(1, b"a")
    chip.bring(1, b"b")
    assert (chip.get(0x2C), chip.get(0x2D)) == (0x21, 0x40)  # ERRIF, RX0IF; RX0OVR
    assert chip.spi(0x90, 0, 0, 0, 0, 0, 0)[6] == ord("a")  # the first is kept
    chip.spi(0x05, 0x2D, 0xC0, 0)
    chip.spi(0x02, 0x2C, 0)
    assert chip.get(0x2D) == 0
    chip.spi(0x05, 0x60, 0x04, 0x04)  # BUKT, and its copy BUKT1
    assert chip.get(0x60) & 0x06 == 0x06
    chip.bring(1, b"c")
    chip.bring(1, b"d")
    assert (chip.get(0x2C), chip.get(0x2D)) == (0x03, 0)
    chip.bring(1, b"e")
    chip.spi(0x05, 0x2C, 0x20, 0)
    assert chip.get(0x2D) == 0x80  # RX1OVR
    assert [chip.spi(which, 0, 0, 0, 0, 0, 0)[6] for which in (0x90, 0x94)] == [*b"cd"]
    assert chip.get(0x2C) == 0x20


def test_error_states(chip: Chip) -> None:
    """Figure 6-1: warning at 96, passive at 128, off the bus above 255. A node that is alone is
    passive, but never off."""
    chip.spi(0x02, 0x60, 0x60)
    chip.mode(0)
    chip.spi(0x81)
    for errors in range(8, 256, 8):
        chip.do("send_failed", False)
        assert chip.get(0x1C) == errors
        assert chip.get(0x2D) == (0x15 if errors >= 128 else 0x05 if errors >= 96 else 0)
        assert chip.get(0x30) & 0x18 == 0x18  # TXERR, and TXREQ: it tries again
    chip.spi(0x02, 0x2C, 0)
    assert chip.get(0x2C) == 0x20  # ERRIF stays while its cause lasts: section 7.7
    chip.do("send_failed", False)
    assert (chip.get(0x2D), chip.get(0x2C)) == (0x35, 0xA0)  # MERRF, and ERRIF: a state has begun
    assert not chip.pending()
    chip.bring(1)
    assert chip.get(0x2C) == 0xA0  # nor does it receive
    chip.do("bus_idle")
    assert chip.get(0x2D) | chip.get(0x1C) == 0
    chip.spi(0x05, 0x2C, 0x20, 0)
    assert chip.get(0x2C) == 0x80
    assert chip.pending()  # the request is still there
    for _ in range(100):
        chip.do("send_failed", True)
    assert chip.get(0x1C) == 128
    chip.do("sent")
    assert (chip.get(0x1C), chip.get(0x2D)) == (127, 0x05)  # no longer passive
    for _ in range(130):
        chip.do("receive_failed")
    assert (chip.get(0x1D), chip.get(0x2D)) == (130, 0x0F)
    chip.bring(1)
    assert chip.get(0x1D) == 127  # 119 to 127


def test_what_is_heard_and_sent_while_it_is_configured(chip: Chip) -> None:
    chip.bring(1)
    assert chip.get(0x2C) == 0
    chip.spi(0x81)
    assert not chip.pending()
