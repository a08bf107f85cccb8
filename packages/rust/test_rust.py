"""The crate, as its users have it: outside of the tree, by cargo."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from packages.rust import make
from tools import programs

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
    """Builds the crate without cargo, and lets it read the vectors."""
    compiler = (rustc, "--edition=2021", "-O", "-Dwarnings",
                "--extern", "dumpulse=libdumpulse.rlib")
    run(crate, *compiler, "--crate-type=rlib", "--crate-name=dumpulse", "src/lib.rs",
        "-o", "libdumpulse.rlib")
    run(crate, *compiler, make.HERE / "vectors.rs", "-o", "vectors")
    steps = run(crate, crate / "vectors", programs.vectors("vectors.tsv"))
    assert int(steps.split()[0]) > 250


@pytest.mark.slow
def test_it_does_what_the_vectors_say(crate: Path) -> None:
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
    run(crate, "cargo", "clippy", "--offline", "--all-targets", "--", "-D", "warnings")
    run(crate, "cargo", "doc", "--offline", "--no-deps", RUSTDOCFLAGS="-D warnings")
    assert "0 failed" in run(crate, "cargo", "test", "--offline")
    assert "warning" not in run(crate, "cargo", "package", "--offline")
