"""Prints all messages and help texts of the servers, the client and the fleet, as one text to edit.

    python3 -m tools.messages              # or make figures ONLY=messages
    python3 -m tools.messages --freeze     # accepts the texts as they are now

A text is a string with three words or more, wherever it is used: in a message, a page or a
statement of SQL. Values that the program fills in have braces or a percent sign. The texts are
frozen: a test compares the hashes that --freeze writes, without line numbers and values."""

import argparse
import ast
import hashlib
import re
from collections.abc import Iterator

from tools.programs import ROOT, as_program

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
STRING_OF_C = re.compile(rf"{LITERAL}(?:\s+(?:{LITERAL}|PRI\w+))*")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
HASHES = ROOT / "tests" / "messages.sha256"
IS_TEXT = re.compile(r"[A-Za-z]\S* \S+ \S")


def of_c(text: str) -> Iterator[tuple[int, str]]:
    """Comments lose all but their ends of lines: so the lines keep their numbers."""
    code = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for string in STRING_OF_C.finditer(code):
        yield (code.count("\n", 0, string.start()) + 1,
               "".join(re.findall(rf"{LITERAL}|PRI\w+", string[0])).replace('"', ""))


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Not the texts within a formatted string, which it has itself, and no descriptions of code."""
    tree, parts = ast.parse(text), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Expr)) and node not in parts:
            parts.update(ast.walk(node) if isinstance(node, ast.JoinedStr) else {node.value})
            parts.discard(node)
        if node in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(
                f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue)
                else str(ast.literal_eval(part)) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def texts() -> Iterator[tuple[str, int, str]]:
    """The file, the line and the text of each message."""
    sources = [ROOT / "udpserver.c", *sorted(ROOT.glob("server/*.c")), ROOT / "client.py",
               *sorted(path for path in ROOT.glob("dumpulse_fleet/**/*.py") if not path.is_symlink()
                       and not {"tests", "simulation"} & {*path.relative_to(ROOT).parts})]
    for path in sources:
        for line, text in (of_c if path.suffix == ".c" else of_python)(path.read_text()):
            if IS_TEXT.search(text):
                yield str(path.relative_to(ROOT)), line, " ".join(text.split())


def hashes() -> str:
    """A hash of the texts of each program, in any order."""
    programs: dict[str, set[str]] = {}
    for path, _, text in texts():
        words = text
        while words != (words := re.sub(r"\{[^{}]*\}", "%", words)):
            pass
        program = {"udpserver.c": "server", "client.py": "client"}.get(path, path.split("/")[0])
        programs.setdefault(program, set()).add(words)
    return "".join(f"{hashlib.sha256(repr(sorted(words)).encode()).hexdigest()}  {program}\n"
                   for program, words in programs.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.messages",
                                     description="Prints all messages of the programs.")
    parser.add_argument("--freeze", action="store_true", help="write their hashes")
    if parser.parse_args().freeze:
        HASHES.write_text(hashes())
        return
    for path, line, text in texts():
        print(f"{path}:{line}: {text}")


if __name__ == "__main__":
    as_program(main, ".*")
