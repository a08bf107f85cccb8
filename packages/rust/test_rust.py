"""The crate, as its users have it: outside of the tree, by cargo.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from packages import project
from packages.rust import make
from spec import model

# What cargo has compiled of other crates is kept for the next run.
TARGET = project.ROOT / "build" / "cargo"
OLD_RUST = Path("/usr/bin/rustc")


def cargo(folder: Path, *arguments: str, fails: bool = False, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("CARGO_", "RUST")) or name in ("CARGO_HOME", "RUSTUP_HOME")}
    kept.pop("CC", None)
    ended = subprocess.run([make.installed("cargo"), *arguments], cwd=folder, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env={**kept, "PATH": make.PATH, "CARGO_TARGET_DIR": str(TARGET),
                                **more})
    assert (ended.returncode != 0) == fails, ended.stdout
    return ended.stdout


def passes(rustc: str | Path, crate: Path) -> None:
    """Builds the crate and its tests without cargo, and so without other crates. Runs them."""
    # build.rs has the names that the C functions get.
    (names,) = re.findall(r"for name in \[(.*?)\]", (crate / "build.rs").read_text())
    renamed = [f"-Ddumpulse_{name}=dumpulse_rust_{name}" for name in re.findall(r"\w+", names)]
    subprocess.run(["gcc", "-std=c99", "-O1", "-Wall", "-Werror", "-c", *renamed, "c/dumpulse.c",
                    "c/hooks.c"], cwd=crate, check=True)
    subprocess.run(["ar", "rcs", "libdumpulse_rust.a", "dumpulse.o", "hooks.o"], cwd=crate,
                   check=True)

    def compiled(*arguments: str) -> None:
        subprocess.run([rustc, "--edition=2021", "-Dwarnings", "--cfg", 'feature="agent"',
                        "-Lnative=.", "--extern", "dumpulse=libdumpulse.rlib", *arguments],
                       cwd=crate, check=True, env={**os.environ, "PATH": make.PATH})

    compiled("--crate-type=rlib", "--crate-name=dumpulse", "-lstatic=dumpulse_rust", "src/lib.rs",
             "-o", "libdumpulse.rlib")
    steps = [line for line in (project.ROOT / "spec" / "vectors.tsv").read_text().splitlines()
             if not line.startswith("#")]
    for test, told in (("vectors", f"\n{len(steps)} steps passed"), ("transports", "8 passed")):
        compiled("--test", f"tests/{test}.rs", "-o", test)
        shown = subprocess.run([crate / test, "--nocapture"], text=True, stdout=subprocess.PIPE,
                               check=True).stdout
        assert told in shown, shown[-2000:]


@pytest.mark.slow
def test_the_crate_passes_all_vectors(tmp_path: Path) -> None:
    passes(make.installed("rustc"), make.tree(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("example", ["can", "serial"])
def test_examples_report_what_the_model_does(tmp_path: Path, example: str) -> None:
    shown = cargo(make.tree(tmp_path), "run", "--quiet", "--locked", "--features", "agent",
                  "--example", example)
    agent = model.Agent()
    for now, (variable, value) in enumerate([(3, 9), (63, 255)], 4660):
        assert agent.process(now, model.heartbeat(variable, 76, value)) == model.HEARTBEAT
    expected = [f"{variable} {entry[0] * 256 + entry[1]} {entry[2]} {entry[3]}"
                for variable, entry in enumerate(agent.entries) if any(entry)]
    assert shown.splitlines() == expected


# A change in the code, and its file: at least one test must notice it.
MUTANTS = [
    ("src/lib.rs", "b % 65521", "b % 65520"),
    ("src/packet.rs", "< VARIABLES", "<= VARIABLES"),
    ("src/packet.rs", "(packet == heartbeat.encode())", "(packet != [0])"),
    ("src/packet.rs", "0xF1", "0xF2"),
    ("src/report.rs", "told == right", "told != 0"),
    ("src/report.rs", "from_be_bytes([table[at]", "from_le_bytes([table[at]"),
    ("src/report.rs", "    4 + 4 *", "    8 + 4 *"),
    ("src/report.rs", "now.wrapping_sub(self.timestamp)", "self.timestamp.wrapping_sub(now)"),
    ("src/agent.rs", "clock().to_be_bytes()", "clock().to_le_bytes()"),
    ("src/agent.rs", "                    self.record(heartbeat, clock);\n", ""),
    ("src/agent.rs", "Outcome::Report(&self.table)", "Outcome::Refused"),
    ("src/can.rs", "number == 0 || number == self.next", "true"),
    ("src/can.rs", "|| bytes.len() != part.len()", "|| bytes.len() > part.len()"),
    ("src/can.rs", "        self.next = 0;\n", ""),
    ("src/can.rs", "|| offset == REQUEST_OFFSET", "|| offset > 96"),
    ("src/can.rs", "difference < IDENTIFIERS", "difference <= IDENTIFIERS"),
    ("src/serial.rs", "        *self = Self::new(); // no byte", "        // no byte"),
    ("src/serial.rs", "self.last != REQUEST && ", ""),
    ("src/serial.rs", "        self.missing = REPORT_SIZE; // no", "        // no"),
    ("c/hooks.c", "return 0;", "return dumpulse_get_timestamp();"),
    ("c/dumpulse.h", "b %= 65521U", "b %= 65519U"),
]


@pytest.mark.long
def test_tests_notice_each_mutant(tmp_path: Path) -> None:
    crate = make.tree(tmp_path)
    tests = ("test", "--quiet", "--locked", "--features", "agent", "--tests")
    cargo(crate, *tests)
    survivors = []
    for file, old, new in MUTANTS:
        path = crate / file
        text = path.read_text()
        assert text.count(old) >= 1, (file, old)
        path.write_text(text.replace(old, new, 1))
        try:
            cargo(crate, *tests, fails=True)
        except AssertionError:
            survivors.append((file, old))
        path.write_text(text)
    assert not survivors, "\n".join(map(str, survivors))


@pytest.mark.long
def test_it_is_as_the_c_library(tmp_path: Path) -> None:
    """Random input. Here the crate and the C library are in one program, each with its own names.
    """
    make.tree(tmp_path)
    assert "3 passed" in cargo(tmp_path / "against_c", "test", "--locked")
    script = tmp_path / "dumpulse" / "build.rs"
    script.write_text(script.read_text().replace('"send_packet", ', ""))
    shown = cargo(tmp_path / "against_c", "test", "--locked", fails=True)
    assert re.search("(duplicate symbol|multiple definition).*dumpulse_send_packet", shown), shown


@pytest.mark.long
def test_checkers_find_nothing(tmp_path: Path) -> None:
    crate = make.tree(tmp_path)
    shutil.copy(make.HERE / "rustfmt.toml", tmp_path)
    for folder in (crate, tmp_path / "against_c"):
        cargo(folder, "fmt", "--check")
        cargo(folder, "clippy", "--locked", "--all-targets", "--all-features", "--",
              "-D", "warnings")
    for feature in ("--all-features", "--no-default-features"):
        cargo(crate, "clippy", "--locked", feature, "--", "-D", "warnings")
        cargo(crate, "doc", "--locked", "--no-deps", feature, RUSTDOCFLAGS="-D warnings")
        assert "0 failed" in cargo(crate, "test", "--locked", "--doc", feature)


def test_only_one_file_may_have_unsafe_code() -> None:
    sources = make.HERE / "crate" / "src"
    unsafe = re.compile(r"\bunsafe (?:\{|fn|impl|trait|extern)|\ballow\(unsafe_code\)")
    found = {path.name: len(unsafe.findall(path.read_text())) for path in sources.glob("*.rs")}
    assert {name: count for name, count in found.items() if count} == {"sys.rs": 1, "lib.rs": 1}
    forbidding = [path.name for path in sources.glob("*.rs")
                  if "#![forbid(unsafe_code)]" in path.read_text()]
    assert sorted({*found} - {*forbidding}) == ["lib.rs", "sys.rs"]


@pytest.mark.long
def test_the_crate_is_made_the_same_twice(tmp_path: Path) -> None:
    made = []
    for turn in "12":
        folder = tmp_path / turn
        folder.mkdir()
        made += make.build(folder)
    assert [path.name for path in made] == 2 * [f"{project.NAME}-{project.version()}.crate"]
    assert made[0].read_bytes() == made[1].read_bytes()


PUBLISH = ("publish", "--dry-run", "--locked", "--all-features")
# What is wrong, what to replace in Cargo.toml, and what cargo says of it.
WRONG = [
    ("a name", 'name = "dumpulse"', 'name = "dum pulse"', "invalid character"),
    ("a version", f'version = "{project.version()}"', 'version = "1.0"', "version"),
    ("a missing file", '"c/", ', "", "c/dumpulse.c"),
    ("a wrong path", '"README.md"', '"READ.md"', "READ.md"),
    ("a Rust that is no version", 'rust-version = "1.63"', 'rust-version = "old"', "rust-version"),
    ("an unknown edition", 'edition = "2021"', 'edition = "2020"', "edition"),
    ("no description", "description = ", "# description = ", "description"),
    ("no licence", "license = ", "# license = ", "license"),
    ("a feature of nothing", 'agent = ["cc"]', 'agent = ["gcc"]', "gcc"),
    ("a dependency that is not in the lock", 'version = "1", optional', 'version = "0.1", optional',
     "failed to select a version"),
]


@pytest.mark.long
def test_cargo_would_publish_it(tmp_path: Path) -> None:
    crate = make.tree(tmp_path)
    manifest = crate / "Cargo.toml"
    text = manifest.read_text()
    assert "@" not in text.split("\n[package]", 1)[1]
    shown = cargo(crate, *PUBLISH)
    assert "aborting upload due to dry run" in shown
    assert not [line for line in shown.splitlines() if "warning" in line and "aborting" not in line]
    for what, old, new, said in WRONG:
        assert text.count(old) >= 1, what
        manifest.write_text(text.replace(old, new, 1))
        try:
            shown = cargo(crate, *PUBLISH, fails=True)
        except AssertionError:
            # Without these, cargo only warns, and the registry refuses the crate.
            shown = cargo(crate, *PUBLISH)
            assert re.search(f"warning: manifest has no .*{said}", shown), (what, shown)
        assert said in shown, (what, shown)


FIRMWARE = """
#![no_std]
use dumpulse::{Agent, Heartbeat, Outcome, Report, REQUEST};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[no_mangle]
pub extern "C" fn run() -> u32 {
    let mut agent = Agent::new();
    let alive = Heartbeat::new(3, 76, 9).unwrap();
    let _ = agent.process(&alive.encode(), || 4660);
    match agent.process(&REQUEST, || 0) {
        Outcome::Report(report) => {
            let report = Report::parse(report).unwrap();
            report.entry(alive.variable).map_or(0, |entry| entry.age(4670).into())
        }
        _ => 0,
    }
}
"""
MAIN = """
#include <stdio.h>
#include "dumpulse.h"
uint32_t run(void);
uint16_t dumpulse_get_timestamp(void) { return 7; }
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    printf("%zu %02x %p\\n", length, packet[0], context);
}
int main(void)
{
    static dumpulse agent;
    static const uint8_t request[] = DUMPULSE_REQUEST;
    dumpulse_process_packet(&agent, request, sizeof request, NULL);
    return printf("%u\\n", (unsigned)run()) < 0;
}
"""


@pytest.mark.long
def test_firmware_uses_it(tmp_path: Path) -> None:
    """A program without Rust's std and alloc. It has the C library as well, and both agents work.
    """
    (made,) = make.build(tmp_path)
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path)
    crate = tmp_path / f"{project.NAME}-{project.version()}"
    assert (crate / "c" / "dumpulse.c").read_bytes() == \
        (project.ROOT / "dumpulse.c").read_bytes()
    firmware = tmp_path / "firmware"
    (firmware / "src").mkdir(parents=True)
    (firmware / "src" / "lib.rs").write_text(FIRMWARE)
    manifest = """[package]
name = "firmware"
version = "0.1.0"
edition = "2021"
[lib]
crate-type = ["staticlib"]
[profile.release]
panic = "abort"
lto = true
"""
    (firmware / "Cargo.toml").write_text(manifest)
    # As README.md says it.
    cargo(firmware, "add", "--path", f"../{crate.name}", "--features", "agent")
    cargo(firmware, "build", "--release")
    (firmware / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", f"-I{project.ROOT}", "main.c",
                    project.ROOT / "dumpulse.c", TARGET / "release" / "libfirmware.a",
                    "-o", "program"], cwd=firmware, check=True)
    shown = subprocess.run(["./program"], cwd=firmware, text=True, stdout=subprocess.PIPE,
                           check=True).stdout
    assert shown == "260 01 (nil)\n10\n"

    # Nodes and readers need no C compiler.
    node = FIRMWARE.replace("Agent, ", "").replace("Outcome, Report, REQUEST", "Report")
    node = re.sub(r"    let mut agent.*?\n}\n", """\
    let packet = Heartbeat::new(3, 76, 9).unwrap().encode();
    u32::from(Report::parse(&packet).is_err())
}
""", node, flags=re.S)
    (firmware / "src" / "lib.rs").write_text(node)
    assert "CC" in cargo(firmware, "build", "--release", CC="/nowhere/gcc", fails=True)
    (firmware / "Cargo.toml").write_text(manifest)
    cargo(firmware, "add", "--path", f"../{crate.name}")
    cargo(firmware, "build", "--release", CC="/nowhere/gcc")


@pytest.mark.long
def test_an_old_rust_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Debian's rustc without cargo: today's cargo cannot use so old a compiler."""
    if not OLD_RUST.exists():
        pytest.fail(f"{OLD_RUST} is not installed: run make packages-setup")
    shown = subprocess.run([OLD_RUST, "--version"], text=True, stdout=subprocess.PIPE,
                           check=True).stdout
    crate = make.tree(tmp_path)
    needed = re.findall(r'^rust-version = "(\d+)\.(\d+)"', (crate / "Cargo.toml").read_text(), re.M)
    (here,) = re.findall(r"rustc (\d+)\.(\d+)", shown)
    assert [tuple(map(int, each)) for each in needed] <= [tuple(map(int, here))]
    with capsys.disabled():  # readers of the log shall see what was used
        print(f"\nthe crate, by {shown.strip()}")
    passes(OLD_RUST, crate)
