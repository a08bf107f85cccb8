"""The storm finds what is wrong, and tells it the same way each time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storm import planted
from tests.storm.images import Claims, Wrong
from tools.programs import ROOT, built, wraps

STORIES = ("--from", "1", "--count", "12")


def tell(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout


def trace(output: str) -> str:
    (found,) = re.findall(r"trace ([0-9a-f]{16})$", output, re.M)
    return str(found)


def test_all_mistakes_can_be_planted() -> None:
    table = planted.read_table()
    assert len({planted.plant(mistake) for mistake in table}) == len(table) >= 30


def test_the_page_has_the_number_of_debts() -> None:
    debts = sum(mistake.is_open for mistake in planted.read_table())
    page = (Path(planted.__file__).parent / "README.md").read_text()
    assert re.findall(r"There are (\d+) open debts", page) == [str(debts)]


@pytest.mark.slow
def test_a_claim_that_was_never_armed_fails_a_run() -> None:
    run = subprocess.run([built("build/storm"), "--count", "1", "--counts"], capture_output=True,
                         text=True, check=False)
    assert run.returncode == 1 and "1 passed, 0 failed" in run.stdout
    assert re.search(r"^ +0  ", run.stdout, re.M) and "was never armed" in run.stdout


def test_a_claim_of_images(capsys: pytest.CaptureFixture[str]) -> None:
    claims = Claims("one", "other")
    claims.check("one", True, "is not")
    with pytest.raises(Wrong, match="it is not"):
        claims.check("one", False, "it is not")
    assert claims.print_counts() and "           2  one\n           0  other" in \
        capsys.readouterr().out
    claims.check("other", True, "is not")
    assert not claims.print_counts()


# Static data must not be that of the C library, so none of them is static. With times of 64 bits,
# functions of the C library have other names.
WIDE = ("-D_TIME_BITS=64", "-D_FILE_OFFSET_BITS=64")
MACHINES = {"clang": ("clang -O0", ""),
            "i386": ("i686-linux-gnu-gcc -O2", "qemu-i386 -L /usr/i686-linux-gnu"),
            "powerpc": ("powerpc-linux-gnu-gcc -O2", "qemu-ppc -L /usr/powerpc-linux-gnu")}


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("agent", ["udpserver.c", "server/canserver.c"])
def test_all_machines_tell_the_same_stories(name: str, agent: str, tmp_path: Path) -> None:
    compiler, emulator = (words.split() for words in MACHINES[name])
    other, whole = tmp_path / "storm", tmp_path / "storm.o"
    subprocess.run([compiler[0], *planted.FLAGS, *WIDE, *compiler[1:], *planted.sources(agent),
                    *wraps("build/storm"), "-nostdlib", "-r", "-o", whole], cwd=ROOT, check=True)
    undefined = re.findall(r" U (\S+)", tell("nm", whole))
    wide = [f"-Wl,--defsym={name}=__wrap_{plain}" for name in undefined
            for plain in [re.sub(r"^__|(64)?(_time64)?$", "", name)]
            if plain != name and f"-Wl,--wrap={plain}" in wraps("build/storm")]
    subprocess.run([compiler[0], *compiler[1:], whole, *wide, "-Wl,--wrap=main", "-pthread",
                    "-o", other], check=True)
    ours = built("build/storm" if agent == "udpserver.c" else "build/storm-can")
    assert trace(tell(ours, *STORIES)) == trace(tell(*emulator, other, *STORIES))


@pytest.mark.slow
def test_images_tell_the_same_stories_each_time() -> None:
    command = (sys.executable, "-m", "tests.storm.images", "--count", "4")
    output = tell(*command)
    assert " 4 passed, 0 failed" in output and trace(output) == trace(tell(*command))


@pytest.mark.slow
def test_a_mistake_is_told_as_the_smallest_story(tmp_path: Path) -> None:
    """It has few faults and few nodes, and can be told again."""
    (mistake,) = [one for one in planted.read_table() if "a block that could not" in one.what]
    (program,) = planted.build(mistake, tmp_path)
    output = tell(program, "--from", "1", "--count", "100")
    story = re.search(r"smallest story in which it is not:\n((?: +\d+:\d\d  .*\n)+)", output)
    assert story is not None and len(story[1].splitlines()) < 8
    nodes = re.search(r"without nodes ([\d, ]+)\n", output)
    assert nodes is not None and len(nodes[1].split(",")) > 6
    again = re.search(r"--seed (\d+) --smaller ([0-9a-f:.]+)\)", output)
    assert again is not None
    told = tell(program, "--seed", again[1], "--smaller", again[2])
    (wrong,) = re.findall(r"WRONG: (.*)", told)
    assert f"seed {again[1]}: {wrong}\n" in output


def test_the_manuals_quote_the_bounds() -> None:
    table = re.findall(r"^    \[[A-Z_]+\] = (\d+), +/\* (.*) \*/$",
                       (ROOT / "tests/storm/oracle.c").read_text(), re.M)
    server, can = (re.split(r"^\.SH ", (ROOT / "server" / page).read_text().split(".SH BOUNDS")[1],
                            flags=re.M)[0] for page in ("udpserver.8", "canserver.8"))
    assert re.findall(r"^ *(\d+)  (.*)$", server, re.M) == table and len(table) == 7
    assert re.findall(r"(\d+)\sms", can) == [ms for ms, _ in table[:5]]
