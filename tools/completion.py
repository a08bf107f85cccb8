"""Makes from the parser of client.py what `make install` installs beside it: its completion for
bash, and its manual, with all options.

    python3 -m tools.completion FOLDER"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import client

ROOT = Path(__file__).resolve().parents[1]
MANUAL = ROOT / "client" / "dumpulse.1"
NAMES = ("dumpulse", "client.py")  # the names by which users call the client
MADE = "Made by `make install` from the parser of client.py."
HOSTS = ("address", "plugin_host")  # the parser's names for an agent's address
COMMANDS = ("", *client.COMMANDS)  # "": the first word is no command


def actions(command: str) -> list[argparse.Action]:
    return client.build_parser(command)._actions


def options(command: str) -> list[argparse.Action]:
    return [action for action in actions(command) if action.option_strings]


def metavar(action: argparse.Action) -> str:
    """Returns the name of the option's value, or nothing if it has none."""
    return str(action.metavar) if action.nargs != 0 else ""


# ---------------------------------------------------------------- bash

BASH = r"""# Completion for bash.   {made}
_dumpulse()
{{
    local command= options= hosts= files= values= first= more= at=2
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    if [[ $word == "=" ]]; then # bash makes three words of --names=FILE
        word=
    elif [[ $before == "=" ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    case ${{COMP_WORDS[1]}} in
    {commands}) command=${{COMP_WORDS[1]}} ;;
    *) at=1 ;;
    esac
    case $command in
{cases}
    esac
    COMPREPLY=()
    if [[ " $files " == *" $before "* ]]; then
        compopt -o filenames 2>/dev/null # not there when a script calls this function
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif [[ " $hosts " == *" $before "* ]]; then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    elif [[ " $values " == *" $before "* ]]; then
        : # a value that nobody but the user knows
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "{words}" -A hostname -- "$word")
    elif ((COMP_CWORD == at)) && [[ $first ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$first" -- "$word")
    elif ((COMP_CWORD == at)); then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    elif [[ $more ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}}
complete -F _dumpulse {names}
"""


def bash() -> str:
    cases = []
    for command in COMMANDS:
        lists: dict[str, list[str]] = {"options": [], "hosts": [], "files": [], "values": []}
        for action in actions(command):
            if not action.option_strings:  # "first" and "more" are arguments
                lists["first"] = [*lists.get("first", []), *(action.choices or [])]
                lists["more"] = ["files"] * (metavar(action) == "FILE")
            lists["options"] += action.option_strings
            if metavar(action):
                kind = "files" if metavar(action) in ("FILE", "FOLDER") else \
                    "hosts" if action.dest in HOSTS else "values"
                lists[kind] += action.option_strings
        cases.append(f"    {command or '*'})")
        cases += [f'        {what}="{" ".join(words)}"' for what, words in lists.items() if words]
        cases.append("        ;;")
    # The case * must come last.
    cases = cases[cases.index("    get)"):] + cases[:cases.index("    get)")]
    return BASH.format(made=MADE, cases="\n".join(cases), commands=" | ".join(client.COMMANDS),
                       words=" ".join(client.COMMANDS), names=" ".join(NAMES))


# ---------------------------------------------------------------- the manual

OPTIONS = '.\\" Here `make install` puts the options, from the parser of client.py.'


def roff(text: str) -> str:
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


Parser = Callable[[str], argparse.ArgumentParser]


def manual_options(build_parser: Parser = client.build_parser,
                   commands: Iterable[str] = tuple(client.COMMANDS)) -> str:
    """Describes each option once, with the commands that have it."""
    commands_by_option: dict[tuple[str, str, str], list[str]] = {}
    for command in commands:
        for action in build_parser(command)._actions:
            if action.option_strings and action.dest not in ("help", "version"):
                key = ", ".join(action.option_strings), metavar(action), str(action.help)
                commands_by_option.setdefault(key, []).append(command)
    lines = []
    for (flags, value, meaning), having in commands_by_option.items():
        named = f'.BI "{roff(flags)}" " {roff(value)}"' if value else f'.B "{roff(flags)}"'
        sentence = roff(meaning[0].upper() + meaning[1:])
        about = textwrap.wrap(f"{sentence}. ({', '.join(having)})", 100, break_on_hyphens=False)
        lines += [".TP", named, *about]
    return "\n".join(lines)


def manual() -> str:
    before, marker, after = MANUAL.read_text().partition(OPTIONS)
    assert marker
    return f"{before}{manual_options()}{after}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("dumpulse.bash", bash()), ("dumpulse.1", manual())):
        new = folder / f"{name}.{os.getpid()}"  # another `make install` may want it just now
        new.write_text(text)
        new.replace(folder / name)
