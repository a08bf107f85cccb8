"""The crate, as its users have it: outside of the tree, by cargo."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.rust import make
from spec import model

# What cargo has compiled of other crates is kept for the next run.
TARGET = project.ROOT / "build" / "cargo"
OLD_RUST = Path("/usr/bin/rustc")  # Debian's: the oldest that will do


def cargo(folder: Path, *arguments: str, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("CARGO_", "RUST")) or name in ("CARGO_HOME", "RUSTUP_HOME")}
    kept.pop("CC", None)
    ended = subprocess.run([make.installed("cargo"), *arguments], cwd=folder, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env={**kept, "PATH": make.PATH, "CARGO_TARGET_DIR": str(TARGET),
                                **more})
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def compiled(rustc: str | Path, folder: Path, *arguments: str | Path) -> None:
    """Runs the compiler without cargo, and so without other crates."""
    subprocess.run([rustc, "--edition=2021", "-O", "-Dwarnings", "--extern",
                    "dumpulse=libdumpulse.rlib", *arguments], cwd=folder, check=True,
                   env={**os.environ, "PATH": make.PATH})


def passes(rustc: str | Path, crate: Path) -> None:
    """Builds the crate and its tests, and runs them. Compares it with the C library, in which
    each inline function gets to be one that others can call."""
    compiled(rustc, crate, "--crate-type=rlib", "--crate-name=dumpulse", "src/lib.rs",
             "--cfg", 'feature="std"', "-o", "libdumpulse.rlib")
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-Dstatic=", "-Dinline=", "-c",
                    project.ROOT / "dumpulse.c"], cwd=crate, check=True)
    compiled(rustc, crate, make.HERE / "against_c.rs", "-o", "against_c", "-Clink-arg=dumpulse.o")
    compiled(rustc, crate, "--test", "tests/transports.rs", "-o", "transports")
    shown = subprocess.run([crate / "transports"], text=True, stdout=subprocess.PIPE,
                           check=True).stdout
    assert "6 passed" in shown, shown
    shown = subprocess.run([crate / "against_c"], text=True, stdout=subprocess.PIPE,
                           check=True).stdout
    packets = [*map(int, re.findall(r"\d+", shown))]
    assert sum(packets) == 10**6 and min(packets) > 10**5, shown


@pytest.mark.slow
def test_it_does_what_c_does(tmp_path: Path) -> None:
    passes(make.installed("rustc"), make.tree(tmp_path))


@pytest.mark.long
def test_the_example_reports_what_the_model_does(tmp_path: Path) -> None:
    shown = cargo(make.tree(tmp_path), "run", "--quiet", "--locked", "--example", "serial")
    agent = model.Agent()
    for now, (variable, value) in enumerate([(3, 9), (63, 255)], 4660):
        assert agent.process(now, model.heartbeat(variable, 76, value)) == model.HEARTBEAT
    expected = [f"{variable} {entry[0] * 256 + entry[1]} {entry[2]} {entry[3]}"
                for variable, entry in enumerate(agent.entries) if any(entry)]
    assert shown.splitlines() == expected


@pytest.mark.long
def test_checkers_find_nothing(tmp_path: Path) -> None:
    crate = make.tree(tmp_path)
    style = ("--check", "--edition=2021", "--config=max_width=100,use_small_heuristics=Max")
    subprocess.run([make.installed("rustfmt"), *style, *make.HERE.glob("*.rs"),
                    *crate.glob("*/*.rs")], check=True)
    for feature in ("--all-features", "--no-default-features"):
        cargo(crate, "clippy", "--locked", "--all-targets", feature, "--", "-D", "warnings")
        cargo(crate, "doc", "--locked", "--no-deps", feature, RUSTDOCFLAGS="-D warnings")
        assert "0 failed" in cargo(crate, "test", "--locked", feature)
    shown = cargo(crate, "publish", "--dry-run", "--locked", "--all-features")
    assert "aborting upload due to dry run" in shown
    assert not [line for line in shown.splitlines() if "warning" in line and "aborting" not in line]


@pytest.mark.long
def test_an_old_rust_is_enough(tmp_path: Path) -> None:
    """Debian's rustc without cargo: today's cargo cannot use so old a compiler."""
    crate = make.tree(tmp_path)
    manifest = (crate / "Cargo.toml").read_text()
    (needed,) = re.findall(r'^rust-version = "(\d+)\.(\d+)"', manifest, re.M)
    (here,) = re.findall(r"rustc (\d+)\.(\d+)",
                         consumers.run([OLD_RUST, "--version"], crate).decode())
    assert (int(needed[0]), int(needed[1])) <= (int(here[0]), int(here[1]))
    passes(OLD_RUST, crate)
