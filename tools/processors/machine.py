"""Runs the compiled library in a simulator: calls its functions, and shows what they do.

    machine = load("Cortex-M0+")
    machine.write(machine.agent, bytes(260))
    call = machine.call("dumpulse_process_packet", agent, packet, 8, context)
    call.result, call.cost, call.stack, call.hooks

The hooks are addresses outside of the library's code. A call to a hook is recorded and answered at
once, so the costs do not include the hooks."""

import functools
import os
import re
import struct
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import unicorn
from elftools.elf.elffile import ELFFile
from unicorn import arm_const, ppc_const, riscv_const, x86_const

from spec.keyed import Keys, Number
from spec.watch import Line
from tools.processors.targets import EVERY, Target
from tools.programs import BUILD, KEYED, ROOT, built, library_file, run

TIME, SEND, CHANGED, KEY, LOAD, STORE = HOOKS = (
    "dumpulse_get_timestamp", "dumpulse_send_packet", "dumpulse_changed", "dumpulse_get_key",
    "dumpulse_load", "dumpulse_store")


@dataclass
class Call:
    """What one call did. The cost is cycles on AVR and instructions elsewhere."""

    result: int
    cost: int
    stack: int  # bytes, with the return address if a call pushes it
    # ("time",), ("send", context, pointer, length, bytes) and ("changed", context, variable, was,
    # is), in order; ("key", label), ("load",) and ("store", number)
    hooks: list[tuple[object, ...]] = field(default_factory=list)


class Machine:
    """What every simulator can do. All addresses are the machine's."""

    ram: int  # where it begins
    folder: tempfile.TemporaryDirectory[str]
    GUARD = 16  # bytes on both sides of the agent that nothing else uses
    TEXT = 0  # where the code begins
    HOOKS: tuple[int, ...] = (0xE000, 0xE080, 0xE100, 0xE180, 0xE200, 0xE280)  # where no code is
    HOME = 0xF000  # where calls return to; nothing runs there
    PAINT = 0xA5
    STACK_SIZE: int  # bytes that are painted before a call, to see how many it uses
    cost_unit = "instructions"
    on_change: Callable[[], None] | None = None  # is called when the hook of the watch is

    def __init__(self, target: Target, image: Path, symbols: dict[str, int]) -> None:
        self.target = target
        self.image = image
        self.symbols = symbols
        self.now = 0
        # What dumpulse_keyed.h's hooks read and write.
        self.keys, self.stored = Keys(bytes(16)), Number()
        self.start(image)
        self.agent = self.ram + self.GUARD
        self.packet = self.agent + 260 + self.GUARD

    def start(self, image: Path) -> None:
        raise NotImplementedError

    def changed(self, hooks: list[tuple[object, ...]], *arguments: int) -> None:
        hooks.append(("changed", *arguments))
        if self.on_change:
            self.on_change()

    def ask(self, hook: str, first: int, second: int, hooks: list[tuple[object, ...]]) -> int:
        """Does what a hook of dumpulse_keyed.h must do, and returns what it returns."""
        if hook == KEY:
            label = second & 0xFF
            hooks.append(("key", label))
            self.write(first, self.keys.of(label))
            return 0
        if hook == LOAD:
            hooks.append(("load",))
            return self.stored.number
        hooks.append(("store", first & 0xFFFFFFFF))
        return self.stored.store(first & 0xFFFFFFFF)

    def write(self, address: int, data: bytes) -> None:
        raise NotImplementedError

    def read(self, address: int, size: int) -> bytes:
        raise NotImplementedError

    def call(self, function: str, *arguments: int) -> Call:
        raise NotImplementedError

    def trace(self, function: str, *arguments: int) -> tuple[Call, list[int]]:
        """A call, and the addresses of all its instructions, without the hooks."""
        raise NotImplementedError

    def depth(self, top: int) -> int:
        """How many bytes of stack a call has used. The painted part ends at the top."""
        painted = self.read(top - self.STACK_SIZE, self.STACK_SIZE)
        deep = len(painted.lstrip(bytes([self.PAINT])))
        if deep == self.STACK_SIZE:
            raise RuntimeError(f"a call took {deep} bytes of stack or more: all that there are")
        return deep

    def close(self) -> None:
        """Ends the simulator, if start() has begun one."""

    @functools.cached_property
    def code(self) -> dict[int, str]:
        """Every instruction by its address, in order, as objdump writes it: name, space,
        operands."""
        raw = ["-M", "no-aliases"] if self.target.machine == "Riscv" else []
        listing = run([self.target.objdump, "-d", "--no-show-raw-insn", *raw, self.image])
        return {int(address, 16): " ".join(words.split()) for address, words in
                re.findall(r"^ *([0-9a-f]+):\t(.*)$", listing, re.M)}


class Avr(Machine):
    """An AVR in simavr, through the command protocol of avr.c."""

    HOOKS = (0x1F00, 0x1F80, 0x1FC0, 0x1FD0, 0x1FE0, 0x1FF0)
    cost_unit = "cycles"

    def start(self, image: Path) -> None:
        hooks = (f"{self.symbols[hook]:x}" for hook in HOOKS)
        assert self.target.model is not None
        self.process = subprocess.Popen(
            [built("build/sim/avr"), self.target.model, image, *hooks],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while (words := self.answer())[0] != "ready":
            pass
        self.ram = int(words[1], 16)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"simavr ended, status {self.process.wait()}")
        return line.split()

    def write(self, address: int, data: bytes) -> None:
        if data:
            self.tell(f"w {address:x} {data.hex()}")

    def read(self, address: int, size: int) -> bytes:
        self.tell(f"r {address:x} {size:x}")
        return bytes.fromhex("".join(self.answer()))

    def run(self, command: str, function: str, *arguments: int) -> tuple[Call, list[int]]:
        registers = b"".join(  # the first argument is in r25:r24, the second in r23:r22 …
            value.to_bytes(2, "little") for value in reversed(arguments))
        self.write(26 - len(registers), registers)
        self.tell(f"t {self.now:x}")
        self.tell(f"{command} {self.symbols[function]:x}")
        hooks: list[tuple[object, ...]] = []
        steps: list[int] = []
        while (words := self.answer())[0] != "done":
            if words[0] == "at":
                steps.append(int(words[1], 16))
            elif words[0] == "lost":
                raise RuntimeError(f"{function} did not return: at {words[1]}")
            elif words[0] == "time":
                hooks.append(("time",))
            elif words[0] in ("key", "load", "store"):
                hook = {"key": KEY, "load": LOAD, "store": STORE}[words[0]]
                answer = self.ask(hook, int(words[1], 16), int(words[2], 16), hooks)
                self.tell(f"g {answer:x}")
            elif words[0] == "changed":
                self.changed(hooks, *(int(word, 16) for word in words[1:]))
                self.tell("g 0")
            else:
                context, pointer, length = (int(word, 16) for word in words[1:4])
                hooks.append(("send", context, pointer, length, bytes.fromhex(words[4])))
        return Call(self.read(24, 1)[0], int(words[1], 16), int(words[2], 16), hooks), steps

    def call(self, function: str, *arguments: int) -> Call:
        return self.run("c", function, *arguments)[0]

    def trace(self, function: str, *arguments: int) -> tuple[Call, list[int]]:
        return self.run("s", function, *arguments)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Unicorn(Machine):
    """A core of the Unicorn emulator. Its memory: code at 0, then RAM."""

    ram = 0x2000_0000
    RAM_SIZE = 0x4000
    STACK_SIZE = 0x2F00

    engine: unicorn.Uc
    arguments: tuple[int, ...]  # registers, as are all these:
    result: int
    program_counter: int
    stack_pointer: int
    hook_code: bytes  # a bare return

    def open(self) -> unicorn.Uc:
        raise NotImplementedError

    def go_home(self, top: int) -> None:
        """Makes the function return to HOME, with the stack pointer at top."""
        raise NotImplementedError

    def entry(self, address: int) -> int:
        return address

    def pass_arguments(self, arguments: tuple[int, ...]) -> None:
        for register, value in zip(self.arguments, arguments, strict=False):
            self.engine.reg_write(register, value)

    def argument(self, number: int) -> int:
        """An argument of the hook that has just been called."""
        value: int = self.engine.reg_read(self.arguments[number])
        return value

    def start(self, image: Path) -> None:
        self.engine = engine = self.open()
        engine.mem_map(0, 0x10000)
        engine.mem_map(self.ram, self.RAM_SIZE)
        with image.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                engine.mem_write(segment["p_paddr"], segment.data())
        for hook in HOOKS:
            engine.mem_write(self.symbols[hook], self.hook_code)
        self.asking = {self.symbols[hook]: hook for hook in (KEY, LOAD, STORE)}
        engine.hook_add(unicorn.UC_HOOK_BLOCK, self.on_block)

    @functools.cached_property
    def starts(self) -> list[int]:
        return list(self.code)

    def on_block(self, engine: unicorn.Uc, address: int, size: int, _: object) -> None:
        if address == self.symbols[TIME]:
            self.hooks.append(("time",))
            engine.reg_write(self.result, self.now)
        elif address == self.symbols[SEND]:
            context, pointer, length = (self.argument(number) for number in range(3))
            data = bytes(engine.mem_read(pointer, min(length, 300)))
            self.hooks.append(("send", context, pointer, length, data))
        elif address == self.symbols[CHANGED]:
            context, *bytes_ = (self.argument(number) for number in range(4))
            self.changed(self.hooks, context, *(byte & 0xFF for byte in bytes_))
        elif address in self.asking:
            answer = self.ask(self.asking[address], self.argument(0), self.argument(1), self.hooks)
            engine.reg_write(self.result, answer)
        else:
            first, end = (bisect_left(self.starts, i) for i in (address, address + size))
            self.cost += end - first

    def write(self, address: int, data: bytes) -> None:
        self.engine.mem_write(address, data)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.engine.mem_read(address, size))

    def call(self, function: str, *arguments: int) -> Call:
        self.cost = 0
        self.hooks: list[tuple[object, ...]] = []
        top = self.ram + self.RAM_SIZE - 256
        self.write(top - self.STACK_SIZE, bytes([self.PAINT]) * self.STACK_SIZE)
        self.engine.reg_write(self.stack_pointer, top)
        self.pass_arguments(arguments)
        self.go_home(top)
        self.engine.emu_start(self.entry(self.symbols[function]), self.HOME, count=1_000_000)
        stopped = self.engine.reg_read(self.program_counter)
        if stopped != self.HOME or self.engine.reg_read(self.stack_pointer) != top:
            raise RuntimeError(f"{function} did not return: at {stopped:x}")
        result = self.engine.reg_read(self.result) & 0xFF
        return Call(result, self.cost, self.depth(top), self.hooks)

    def trace(self, function: str, *arguments: int) -> tuple[Call, list[int]]:
        seen: list[int] = []

        def step(_engine: unicorn.Uc, address: int, _size: int, _: object) -> None:
            if address not in [self.symbols[hook] for hook in HOOKS]:
                seen.append(address)

        hook = self.engine.hook_add(unicorn.UC_HOOK_CODE, step)
        self.engine.ctl_flush_tb()  # code that has run without the hook would not call it
        call = self.call(function, *arguments)
        self.engine.hook_del(hook)
        return call, seen


class Linked(Unicorn):
    """A core that has the return address in a register."""

    link: int

    def go_home(self, top: int) -> None:
        self.engine.reg_write(self.link, self.entry(self.HOME))


class Thumb(Linked):
    arguments = (arm_const.UC_ARM_REG_R0, arm_const.UC_ARM_REG_R1,
                 arm_const.UC_ARM_REG_R2, arm_const.UC_ARM_REG_R3)
    result = arguments[0]
    link = arm_const.UC_ARM_REG_LR
    program_counter = arm_const.UC_ARM_REG_PC
    stack_pointer = arm_const.UC_ARM_REG_SP
    hook_code = bytes.fromhex("7047")  # bx lr

    def open(self) -> unicorn.Uc:
        engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        engine.ctl_set_cpu_model(getattr(arm_const, f"UC_CPU_ARM_{self.target.model}"))
        return engine

    def entry(self, address: int) -> int:
        return address | 1


class Riscv(Linked):
    arguments = (riscv_const.UC_RISCV_REG_A0, riscv_const.UC_RISCV_REG_A1,
                 riscv_const.UC_RISCV_REG_A2, riscv_const.UC_RISCV_REG_A3)
    result = arguments[0]
    link = riscv_const.UC_RISCV_REG_RA
    program_counter = riscv_const.UC_RISCV_REG_PC
    stack_pointer = riscv_const.UC_RISCV_REG_SP
    hook_code = bytes.fromhex("8280")  # ret

    def open(self) -> unicorn.Uc:
        return unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)


class PowerPC(Linked):
    arguments = (ppc_const.UC_PPC_REG_3, ppc_const.UC_PPC_REG_4,
                 ppc_const.UC_PPC_REG_5, ppc_const.UC_PPC_REG_6)
    result = arguments[0]
    link = ppc_const.UC_PPC_REG_LR
    program_counter = ppc_const.UC_PPC_REG_PC
    stack_pointer = ppc_const.UC_PPC_REG_1
    hook_code = bytes.fromhex("4e800020")  # blr

    def open(self) -> unicorn.Uc:
        return unicorn.Uc(unicorn.UC_ARCH_PPC, unicorn.UC_MODE_PPC32 | unicorn.UC_MODE_BIG_ENDIAN)


class Amd64(Unicorn):
    arguments = (x86_const.UC_X86_REG_RDI, x86_const.UC_X86_REG_RSI,
                 x86_const.UC_X86_REG_RDX, x86_const.UC_X86_REG_RCX)
    result = x86_const.UC_X86_REG_RAX
    program_counter = x86_const.UC_X86_REG_RIP
    stack_pointer = x86_const.UC_X86_REG_RSP
    hook_code = bytes.fromhex("c3")  # ret
    WORD = 8

    def open(self) -> unicorn.Uc:
        return unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)

    def go_home(self, top: int) -> None:
        """The return address is on the stack, as if the caller had pushed it."""
        self.write(top - self.WORD, self.HOME.to_bytes(self.WORD, "little"))
        self.engine.reg_write(self.stack_pointer, top - self.WORD)


class I386(Amd64):
    result = x86_const.UC_X86_REG_EAX
    program_counter = x86_const.UC_X86_REG_EIP
    stack_pointer = x86_const.UC_X86_REG_ESP
    WORD = 4

    def open(self) -> unicorn.Uc:
        return unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_32)

    def pass_arguments(self, arguments: tuple[int, ...]) -> None:
        """The arguments are on the stack, too, the first one at the lowest address."""
        self.write(self.engine.reg_read(self.stack_pointer),
                   b"".join(value.to_bytes(self.WORD, "little") for value in arguments))

    def argument(self, number: int) -> int:
        address = self.engine.reg_read(self.stack_pointer) + (1 + number) * self.WORD
        return int.from_bytes(self.read(address, self.WORD), "little")


# What each part of the library keeps in an image. The first is in its source.
KEPT = {"dumpulse.c": ("dumpulse_process_packet", "export_record", "export_make_heartbeat",
                       "export_check_report", "export_read_entry"),
        "dumpulse_watch.c": ("dumpulse_watch_lines_", "export_watch", "export_watch_part",
                             "export_watch_begin", "export_watch_state", "export_watch_worst",
                             "export_watch_count", "export_watch_check", "export_watched_make"),
        "dumpulse_keyed.c": ("dumpulse_keyed_process", "dumpulse_keyed_look",
                             "dumpulse_keyed_begin", "dumpulse_keyed_next", "dumpulse_keyed_beacon",
                             "dumpulse_keyed_renew", "dumpulse_hear", "dumpulse_ask",
                             "dumpulse_keyed_request", "dumpulse_keyed_check",
                             "dumpulse_label_key", "export_keyed_heartbeat",
                             "export_mixed_process", "export_slots_read", "export_slots_write")}


def sources(part: str, target: Target) -> list[str]:
    """The files of a part of the library. That with keys is named after its header, and has a file
    for each role, one in AVR's assembly, and version 1."""
    if part != "dumpulse_keyed.c":
        return [part]
    return [*KEYED, "dumpulse.c", *["dumpulse_tag_avr.S"] * (target.machine == "Avr")]


def load(name: str, part: str = "dumpulse.c", *more: str) -> Machine:
    """Compiles the library, its watch or its part with keys for a target, with more flags for the
    compiler, and puts it in its simulator.

    DUMPULSE_SOURCE in the environment names another folder to take the library from:
    that of a mutant.
    """
    source = Path(os.environ.get("DUMPULSE_SOURCE", ROOT))
    files = [library_file(file, source) for file in sources(part, EVERY[name])]
    files.append(ROOT / "tests" / part.replace("dumpulse", "exports"))
    return image_of(name, files, KEPT[part], more, source)


def image_of(name: str, files: Iterable[Path], kept: Sequence[str], more: Sequence[str] = (),
             include: Path = ROOT) -> Machine:
    """Compiles these files for a target, and puts them in its simulator. These functions of them
    are kept; the first is where the image begins."""
    target = EVERY[name]
    # A new folder, as several tests may load the same target at the same time.
    (BUILD / "sim").mkdir(parents=True, exist_ok=True)
    folder = tempfile.TemporaryDirectory(prefix=target.folder, dir=BUILD / "sim")
    path = Path(folder.name)
    objects = []
    for file in files:
        objects.append(path / f"{file.stem}.o")
        target.compile(file, objects[-1], *more, include=include)
    image = path / "image.elf"
    machines = {cls.__name__: cls for cls in (Avr, Thumb, Riscv, Amd64, I386, PowerPC)}
    kind = machines[target.machine]
    keep = [f"-Wl,-u,{function}" for function in kept]
    hooks = dict(zip(HOOKS, kind.HOOKS, strict=True))
    target.link(objects, image, f"-Wl,-Ttext={kind.TEXT:#x}", f"-Wl,-e,{kept[0]}",
                *keep, *(f"-Wl,--defsym={hook}={address:#x}" for hook, address in hooks.items()))
    with image.open("rb") as elf:
        table = ELFFile(elf).get_section_by_name(".symtab")
        # The lowest bit of a Thumb function's address is set.
        thumb = int(target.machine == "Thumb")
        symbols = {symbol.name: symbol["st_value"] & ~thumb for symbol in table.iter_symbols()}
    symbols |= hooks
    machine = kind(target, image, symbols)
    machine.folder = folder  # it is removed with the machine
    return machine


class Watching:
    """An agent and a watch of it in a simulator. The agent has a guard on both sides, and so has
    what the watch knows of each line."""

    FLASH = 0x1000  # where the table lies on AVR, whose program memory has addresses of its own

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        with machine.image.open("rb") as file:
            elf = ELFFile(file)
            self.order = "<" if elf.little_endian else ">"
            self.wide = 2 if isinstance(machine, Avr) else elf.elfclass // 8
        self.watcher = machine.agent + 260 + machine.GUARD
        self.seen = self.watcher + 2 * self.wide + 8
        self.told: list[bytes] = []  # the RAM at each call of the hook
        machine.on_change = lambda: self.told.append(self.known())

    def start(self, lines: Sequence[Line], seen: bytes) -> None:
        """Writes a table and what is known of its lines. They take the place of those before."""
        machine, gap = self.machine, "" if isinstance(self.machine, Avr) else "x"
        table = b"".join(line.packed(self.order, gap) for line in lines)
        if isinstance(machine, Avr):
            table_at = self.FLASH
            machine.tell(f"f {table_at:x} {table.hex()}")
        else:
            table_at = self.seen + 3 * 255 + machine.GUARD & ~7
            machine.write(table_at, table)
        order: Literal["little", "big"] = "little" if self.order == "<" else "big"
        self.count = len(lines)
        machine.write(self.watcher, b"".join(
            pointer.to_bytes(self.wide, order) for pointer in (table_at, self.seen))
            + bytes((len(lines),)))
        machine.write(self.seen, seen)

    def look(self, now: int, function: str = "dumpulse_watch_lines_", *part: int) -> Call:
        """Looks, and checks that the hook is called when the RAM is as it stays."""
        before, self.told = self.known(), []
        call = self.machine.call(function, self.watcher, self.machine.agent, now, *part)
        after = self.known()
        changed = [i for i in range(0, 3 * self.count, 3) if before[i + 2] != after[i + 2]]
        for i, then in zip(changed, self.told, strict=False):
            if then[i:i + 3] != after[i:i + 3]:
                raise RuntimeError("the hook is called before the state is new")
        return call

    def ask(self, function: str, *arguments: int) -> int:
        """What one of the other functions returns."""
        return self.machine.call(f"export_watch_{function}", self.watcher, *arguments).result

    def made(self, variable: int, late: int, dead: int, grace: int, lowest: int,
             highest: int) -> Line:
        """What dumpulse_watched_make() makes, which AVR does not have. It overwrites the agent."""
        numbers, line = self.machine.agent, self.machine.agent + 16
        self.machine.write(numbers, struct.pack(">B3H2B", variable, late, dead, grace, lowest,
                                                highest))
        self.machine.call("export_watched_make", line, numbers)
        return Line(*struct.unpack(self.order + "3Bx3H", self.machine.read(line, 10)))

    def known(self) -> bytes:
        """What the watch knows of its lines, and the guard behind."""
        return self.machine.read(self.seen, 3 * self.count + Machine.GUARD)


class Keyed:
    """An agent with keys in a simulator, with a guard on both sides, or a node or reader in its
    place. The list of the variables that send version 1 lies right behind it, and then the
    packet."""

    # Where the counts and the report lie in an agent.
    LAST, REPORT = 6, 6 + 65

    def __init__(self, machine: Machine, unkeyed: bytes = b"") -> None:
        self.machine, self.unkeyed = machine, unkeyed
        # The report begins with a word, and only AVR does not align words.
        self.report = self.REPORT if isinstance(machine, Avr) else self.REPORT + 1
        self.size = self.report + 264 + len(unkeyed)
        self.packet = machine.agent + self.size + machine.GUARD
        with machine.image.open("rb") as file:
            self.order: Literal["little", "big"] = \
                "little" if ELFFile(file).little_endian else "big"

    def clear(self) -> None:
        """Lets the agent be zeros."""
        self.machine.write(self.machine.agent,
                           bytes(self.size - len(self.unkeyed)) + self.unkeyed)

    def put(self, state: bytes) -> None:
        """Writes the first 6 bytes of a state."""
        epoch = int.from_bytes(state[:4], "big").to_bytes(4, self.order)
        self.machine.write(self.machine.agent, epoch + state[4:6])

    def state(self) -> bytes:
        """As spec/tools/keyed_vectors.py has it."""
        agent = self.machine.read(self.machine.agent, self.REPORT)
        epoch = int.from_bytes(agent[:4], self.order).to_bytes(4, "big")
        return epoch + agent[4:]

    def sent(self) -> bytes:
        """The last report."""
        return self.machine.read(self.machine.agent + self.report, 264)

    def begin(self) -> Call:
        return self.machine.call("dumpulse_keyed_begin", self.machine.agent)

    def process(self, now: int, packet: bytes, context: int = 0) -> Call:
        self.machine.now = now
        self.machine.write(self.packet, packet[:64])
        return self.machine.call(
            "export_mixed_process" if self.unkeyed else "dumpulse_keyed_process",
            self.machine.agent, self.packet, len(packet), context)
