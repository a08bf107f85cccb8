"""Prints all messages and help texts of the servers, the client and the fleet, as one text to edit.

    python3 -m tools.messages     # or make figures ONLY=messages

A text is a string with three words or more, wherever it is used: in a message, a page or a
statement of SQL. Values that the program fills in have braces or a percent sign."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.programs import ROOT, as_program

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
STRING_OF_C = re.compile(rf"{LITERAL}(?:\s+(?:{LITERAL}|PRI\w+))*")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
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
            yield node.lineno, ast.unparse(node)[2:-1]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def main() -> None:
    argparse.ArgumentParser(prog="tools.messages",
                            description="Prints all messages of the programs.").parse_args()
    sources = [ROOT / "udpserver.c", *sorted(ROOT.glob("server/*.c")), ROOT / "client.py",
               *sorted(path for path in ROOT.glob("dumpulse_fleet/**/*.py")
                       if not {"tests", "simulation"} & {*path.parts} and not path.is_symlink())]
    for path in sources:
        for line, text in (of_c if path.suffix == ".c" else of_python)(path.read_text()):
            if IS_TEXT.search(text):
                print(f"{path.relative_to(ROOT)}:{line}: {' '.join(text.split())}")


if __name__ == "__main__":
    as_program(main, ".*")
