"""The crate, as its users have it: outside of the tree, by cargo."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from packages.rust import make
from tools.programs import ROOT

# rustup puts its programs where only a shell of its user looks.
PATH = os.pathsep.join([os.environ["PATH"], str(Path.home() / ".cargo" / "bin")])
OLD_RUST = "/usr/bin/rustc"  # Debian's: the oldest that will do


@pytest.fixture(name="crate")
def fixture_crate(tmp_path: Path) -> Path:
    """The folder of the unpacked crate."""
    (made,) = make.build(tmp_path)
    with tarfile.open(made) as packed:
        packed.extractall(tmp_path)
    return tmp_path / made.stem


def run(folder: Path, *words: str | Path, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("CARGO_", "RUST")) or name in ("CARGO_HOME", "RUSTUP_HOME")}
    ended = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env={**kept, "PATH": PATH, **more})
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def passes(rustc: str, crate: Path) -> None:
    """Builds the crate and its tests without cargo, and runs them. Compares it with the C library,
    in which each inline function gets to be one that others can call."""
    compiler = (rustc, "--edition=2021", "-O", "-Dwarnings",
                "--extern", "dumpulse=libdumpulse.rlib")
    run(crate, *compiler, "--crate-type=rlib", "--crate-name=dumpulse", "src/lib.rs",
        "--cfg", 'feature="std"', "-o", "libdumpulse.rlib")
    run(crate, "gcc", "-O2", "-Wall", "-Werror", "-Dstatic=", "-Dinline=", "-c",
        ROOT / "dumpulse.c")
    run(crate, *compiler, make.HERE / "against_c.rs", "-o", "against_c", "-Clink-arg=dumpulse.o")
    run(crate, *compiler, "--test", "tests/transports.rs", "-o", "transports")
    assert "6 passed" in run(crate, crate / "transports")
    packets = [*map(int, re.findall(r"\d+", run(crate, crate / "against_c")))]
    assert sum(packets) == 10**6 and min(packets) > 10**5, packets


@pytest.mark.slow
def test_it_does_what_c_does(crate: Path) -> None:
    passes(shutil.which("rustc", path=PATH) or "rustc", crate)


@pytest.mark.long
def test_an_old_rust_is_enough(crate: Path) -> None:
    (needed,) = re.findall(r'^rust-version = "(.*)"', (crate / "Cargo.toml").read_text(), re.M)
    assert run(crate, OLD_RUST, "--version").startswith(f"rustc {needed}.")
    passes(OLD_RUST, crate)


@pytest.mark.long
def test_checkers_find_nothing(crate: Path) -> None:
    run(crate, "rustfmt", "--check", "--edition=2021", "--config=max_width=100,"
        "use_small_heuristics=Max", *make.HERE.glob("*.rs"), *crate.glob("*/*.rs"))
    for feature in ("--all-features", "--no-default-features"):
        run(crate, "cargo", "clippy", "--offline", "--all-targets", feature, "--", "-D", "warnings")
        run(crate, "cargo", "doc", "--offline", "--no-deps", feature, RUSTDOCFLAGS="-D warnings")
        assert "0 failed" in run(crate, "cargo", "test", "--offline", feature)
    assert "warning" not in run(crate, "cargo", "package", "--offline", "--all-features")
