"""The command dumpulse-fleet."""

import argparse
import difflib
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn
from urllib.parse import quote

from dumpulse_fleet import client
from dumpulse_fleet.config.values import listening, similar
from dumpulse_fleet.http_client import (
    ADDRESS, ADDRESS_ENV, NOT_OURS, TOKEN_ENV, FleetClient, NotFound, printable)
from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.naming import Wrong
from dumpulse_fleet.model.version import VERSION

CONFIG_FILE = "/etc/dumpulse/fleet.toml"
KNOWN_FOR = 86_400_000  # ms; what is acknowledged for ever is forgotten.
PAGE = 1000  # Agents or events of one answer.
WORST = [state.words for state in sorted(State, reverse=True) if state != State.UNWATCHED]
# Events whose words need no kind.
SPEAKS = ("state", "rebooted", "clock", "restarted", "name", "mute")
COLOURS = {"alive": "32", "pending": "36", "unknown": "36", "late": "33", "out of range": "33",
           "never": "31", "dead": "31", "damaged": "1;31", "unreachable": "1;31"}

# ---------------------------------------------------------------- what is printed
def columns() -> int:
    """Returns where lines are cut: only where they would wrap."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def painted(text: str, state: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or state not in COLOURS:
        return text
    return f"\033[{COLOURS[state]}m{text}\033[0m"


def cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else f"{text[:max(0, width - 3)]}..."


def for_how_long(seconds: float) -> str:
    """Returns a time in at most seven characters."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def since(moment: float | None) -> str:
    return "-" if moment is None else for_how_long(time.time() - moment)


def clock(moment: float) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(moment))


def counted(counts: Mapping[str, int], leave: Sequence[str] = ()) -> str:
    """Returns words like \"2 dead, 1 late\"."""
    return ", ".join(f"{int(counts[state])} {state}" for state in WORST
                     if counts.get(state) and state not in leave)


def care(known: Mapping[str, Any] | None) -> str:
    return f" ({printable(known['by'])} is handling it)" if known else ""


def table(rows: Sequence[Sequence[str]], head: Sequence[str], states: Sequence[str] = ()
          ) -> Iterator[str]:
    """In columns that are as wide as they must be. If the terminal is narrow, the widest ones give
    way, but not the first one. That has the colours of these states."""
    rows = [[printable(text) for text in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    while sum(widths) + 2 * (len(widths) - 1) > columns() and max(widths[1:]) > 4:
        widths[widths.index(max(widths[1:]), 1)] -= 1
    for row, state in zip(rows, ("", *(states or [""] * len(rows)))):
        first, *others = [cut(text, width).ljust(width) for text, width in zip(row, widths)]
        yield "  ".join([painted(first, state), *others]).rstrip()


# ---------------------------------------------------------------- commands that ask
def fleet_of(options: argparse.Namespace) -> FleetClient:
    return FleetClient(options.fleet or "", options.token_file or "", options.user or "",
                       options.password_file or "", options.ca_file or "", options.timeout / 1000)


def all_pages(fleet: FleetClient, path: str, key: str, query: Mapping[str, Any], limit: int,
              ) -> tuple[list[dict[str, Any]], int]:
    """Returns up to so many (0: all) agents, and how many there are."""
    items: list[dict[str, Any]] = []
    total = 1
    while len(items) < total and (not limit or len(items) < limit):
        count = min(PAGE, limit - len(items)) if limit else PAGE
        answer = fleet.request(path, {**query, "offset": len(items), "limit": count})
        total = int(answer["total"])
        if not answer[key]:
            break
        items += answer[key]
    return items, total


def run_ls(options: argparse.Namespace) -> int:
    fleet = fleet_of(options)
    agents, total = all_pages(fleet, "/api/v1/agents", "agents", {
        "q": " ".join(options.words), "state": options.state, "site": options.site,
        "label": options.label}, options.limit)
    if options.json:
        return print_json({"total": total, "agents": agents})
    summary = fleet.request("/api/v1/summary")
    if agents:
        rows = [[str(agent["state"]) + " (muted)" * bool(agent["muted"])
                 + care(agent["acknowledged"]), since(agent["since"]),
                 str(agent["name"]), str(agent["site"]) or "-",
                 counted(agent["counts"], ("alive", "unknown")) or "-"] for agent in agents]
        print(*table(rows, ["state", "since", "agent", "site", "variables"],
                     [str(agent["state"]) for agent in agents]), sep="\n")
    if total > len(agents):
        print(f"and {total - len(agents):,} more: --limit 0 shows all")
    trouble = f"; {summary['trouble']}" if summary["trouble"] else ""
    whole = sum(summary["agents"].values())
    print(printable(f"{whole:,} agent{'s' * (whole != 1)}: "
                    f"{counted(summary['agents']) or 'none'}{trouble}"))
    return 0


def run_show(options: argparse.Namespace) -> int:
    fleet = fleet_of(options)
    try:
        agent = fleet.request(f"/api/v1/agents/{quote(options.name, safe='')}")
    except NotFound as error:
        names = [str(item["name"]) for item in all_pages(
            fleet, "/api/v1/agents", "agents", {"sort": "name"}, 5 * PAGE)[0]]
        near = difflib.get_close_matches(options.name, names, 1)
        raise NotFound(f"{error}: {options.name}" + (f" (do you mean {printable(near[0])!r}?)"
                                                     if near else "")) from error
    if options.json:
        return print_json(agent)
    state = str(agent["state"])
    lasts = "" if agent["since"] is None else f" for {since(agent['since'])}"
    print(painted(f"{cut(agent['name'], 60)}: {printable(state)}{lasts}", state)
          + ", muted" * bool(agent["muted"]) + care(agent["acknowledged"]))
    labels = [f"{key}={text}" for key, text in agent["labels"].items()]
    for what, text in (
            ("address", agent["address"]), ("site", agent["site"]), ("labels", ", ".join(labels)),
            ("parent", agent["parent"]), ("names", agent["profile"]),
            ("reports", f"{agent['reports']}, {agent['lost']} lost, {agent['late']} late, "
                        f"{agent['bad']} damaged, "
                        f"{agent['reboots']} reboots, the last "
                        + (f"{since(agent['heard_at'])} ago" if agent["heard_at"] else "never"))):
        if text:
            print(f"{what:9}{cut(text, columns() - 9)}")
    shown = [cell for cell in agent["variables"]
             if cell["expected"] or cell["heard_at"] is not None]
    rows = [[str(cell["state"]), f"{cell['variable']} {cell['name']}".strip()
             + " (not authenticated)" * (cell["authenticated"] is False),
             "-" if cell["value"] is None else str(cell["value"]),
             "-" if cell["sender"] is None else str(cell["sender"]),
             "never" if cell["heard_at"] is None else
             f"{'over ' * bool(cell['at_least'])}{since(cell['heard_at'])} ago",
             f"{cell['low']}..{cell['high']}"] for cell in shown]
    if rows:
        print(*table(rows, ["state", "variable", "value", "sender", "heard", "range"],
                     [str(cell["state"]) for cell in shown]), sep="\n")
    return 0


def run_events(options: argparse.Namespace) -> int:
    begins = None if options.since is None else round(time.time() - options.since / 1000, 3)
    query = {"agent": options.agent, "site": options.site, "what": options.what, "since": begins,
             "variable": options.variable}
    fleet = fleet_of(options)
    events: list[dict[str, Any]] = []
    while len(events) < options.limit:
        page = fleet.request("/api/v1/events", {
            **query, "limit": min(PAGE, options.limit - len(events)),
            "before": events[-1]["number"] if events else None})["events"]
        events += page
        if len(page) < min(PAGE, options.limit):
            break
    if options.json:
        return print_json({"events": events})
    rows = []
    for event in reversed(events):  # The newest at the bottom, as in a log.
        who = str(event["agent"]) + ("" if event["variable"] is None else
                                    f" {event['name'] or event['variable']}")
        lasted = f" after {for_how_long(event['lasted'])}" if event["lasted"] is not None else ""
        change = f"{event['was']} -> {event['now']}" if event["was"] and event["now"] else \
            f"{event['was']}{event['now']}"
        kind = "" if event["what"] in SPEAKS else f"{event['what']}: " if change else event["what"]
        rows.append([clock(event["at"]), who or "-", str(event["site"]) or "-",
                     f"{kind}{change}{lasted}"])
    if rows:
        print(*table(rows, ["time", "agent", "site", "what"]), sep="\n")
    else:
        print("no events")
    return 0


def run_mute(options: argparse.Namespace, acknowledges: bool = False) -> int:
    fleet = fleet_of(options)
    if options.end is not None:
        if options.match:
            raise client.BadUsage("--end ends one mute, so name nothing else")
        return finish(options, fleet.request(f"/api/v1/mutes/{options.end}", method="DELETE"))
    if options.match:
        if options.duration is None and not acknowledges:
            raise client.BadUsage("for how long? write --for 2h")
        match = dict(parse_match(f"name={word}" if acknowledges and "=" not in word else word)
                     for word in options.match)
        if len(match) < len(options.match):
            raise client.BadUsage("each label can be named once; values may have * in them")
        who = os.environ.get("LOGNAME", "") or os.environ.get("USER", "") or "somebody"
        answer = fleet.request("/api/v1/mutes", method="POST", body={
            "match": match, "seconds": (options.duration or KNOWN_FOR) / 1000,
            "why": options.why or "", "by": who, "acknowledges": acknowledges})
        words = "acknowledged until all is well, at most" if acknowledges else "is in force"
        return finish(options, answer, f"mute {answer.get('number')} {words} until "
                                       f"{clock(answer['ends'])}; end it with --end")
    mutes = fleet.request("/api/v1/mutes")
    if options.json:
        return print_json(mutes)
    rows = [[str(mute["number"] or "-"), clock(mute["begins"]), clock(mute["ends"]),
             " ".join(f"{key}={text}" for key, text in mute["match"].items()),
             "acknowledged" if mute["acknowledges"] else "muted",
             f"{mute['why']} ({mute['by'] or '?'})".strip()] for mute in mutes["mutes"]]
    print(*table(rows, ["mute", "from", "until", "what", "kind", "why"]) if rows else ["no mutes"],
          sep="\n")
    return 0


def run_reload(options: argparse.Namespace) -> int:
    return finish(options, fleet_of(options).request("/-/reload", method="POST"))


def finish(options: argparse.Namespace, answer: dict[str, Any], words: str = "") -> int:
    return print_json(answer) if options.json else print(printable(words or answer["done"])) or 0


def print_json(data: Any) -> int:
    print(json.dumps(data))
    return 0


# ---------------------------------------------------------------- serve
def run_serve(options: argparse.Namespace) -> int:
    # Those who ask need not wait for what only the service needs.
    from dumpulse_fleet.config.file import load
    from dumpulse_fleet.config.toml_reader import Mistakes
    try:
        config = load(options.config_file)
    except Mistakes as error:
        for mistake in error.all:
            client.complain(str(mistake))
        count = len(error.all)
        if error.all[0].file:
            client.complain(f"{count} mistake{'s' * (count != 1)} in {options.config_file!r}")
        return client.BadUsage.STATUS
    from dumpulse_fleet import service
    return service.run(config, service.Given(options.listen, options.web_file), options.check)


# ---------------------------------------------------------------- the command line
def parse_match(text: str) -> tuple[str, str]:
    label, equals, glob = text.partition("=")
    if not (label and equals and glob):
        raise client.BadUsage(f"{text!r} does not name what it is about: write it like site=north, "
                              "name=pump-* or variable=tank")
    return label, glob


def parse_state(text: str) -> str:
    words = text.replace("-", " ")
    if words not in WORST:
        raise client.BadUsage(f"{text!r} is not a state: use {', '.join(WORST)}"
                              + similar(words, WORST).replace(":", ";", 1))
    return words


def parse_config(parse: Callable[[Any], Any], text: str) -> Any:
    try:
        return parse(text)
    except Wrong as error:
        raise client.BadUsage(str(error)) from error


STATUSES = f"""\
Each command has its own --help. All but serve use the fleet at --fleet, or at
${ADDRESS_ENV}, or at {ADDRESS}.

exit status: 0 fine; 1 it cannot start now, the collector failed, or the output
could not be written; 2 bad usage, a mistake in the configuration, or the fleet
rejects it; 3 no answer; 4 a bad answer."""

COMMANDS = {
    "serve": client.Command(run_serve, "", "poll the agents, and send alerts", """\
Poll all agents of a configuration. Show them on a page, export to Prometheus,
and send alerts. SIGHUP reads the configuration again, SIGTERM ends."""),
    "ls": client.Command(run_ls, "[WORD]...", "list agents, the worst first",
                         "List the agents in whose name, site, address or labels all words are."),
    "show": client.Command(run_show, "NAME", "one agent and its variables",
                           "Show all that is known of an agent."),
    "events": client.Command(run_events, "", "what has changed",
                             "List what has changed, the newest at the bottom."),
    "mute": client.Command(run_mute, "[LABEL=VALUE]...", "hold back alerts for a while", """\
Hold back the alerts about all that has these labels; `name`, `site` and
`variable` work, too. Values may have * in them. Without labels, list the mutes.
Monitoring goes on."""),
    "ack": client.Command(partial(run_mute, acknowledges=True), "[NAME|LABEL=VALUE]...",
                          "mark that you are handling it", """\
Acknowledge the trouble of these agents: others see who is handling it, and no
reminders come. It ends when all is well. Without words, list what mute lists."""),
    "reload": client.Command(run_reload, "", "read the configuration again", """\
Let the fleet read its configuration again. If it is wrong, the old one stays."""),
}
ASKERS = ("ls", "show", "events", "mute", "ack", "reload")
MUTERS = ("mute", "ack")
COUNT = partial(client.parse_number, low=0, high=10**7)

OPTIONS = [
    client.Option(("serve",), "--config.file", "FILE", f"the configuration ({CONFIG_FILE})",
                  extra={"dest": "config_file", "default": CONFIG_FILE}),
    client.Option(("serve",), "--config.check", "", "print what is wrong with it, and exit",
                  extra={"dest": "check"}),
    client.Option(("serve",), "--web.listen-address", "HOST:PORT",
                  "where the page is (as in the file)", partial(parse_config, listening),
                  {"dest": "listen"}),
    client.Option(("serve",), "--web.config.file", "FILE",
                  "TLS and passwords, as exporters have it", extra={"dest": "web_file"}),
    client.Option(("ls",), "words", "WORD", "in the name, site, address or labels",
                  extra={"nargs": "*", "default": []}),
    client.Option(("ls",), "--state", "STATE", "only in this state", parse_state,
                  {"action": "append"}),
    client.Option(("ls",), "--label", "LABEL=VALUE", "only with this label",
                  extra={"action": "append"}),
    client.Option(("ls",), "--site", "SITE", "only of this site", extra={"action": "append"}),
    client.Option(("ls",), "--limit", "N", "maximum number of rows; 0 means no limit (100)", COUNT,
                  {"default": 100}),
    client.Option(("show",), "name", "NAME", "of the agent"),
    client.Option(("events",), "--agent", "NAME", "only of these agents; may have * in it"),
    client.Option(("events",), "--site", "SITE", "only of these sites; may have * in it"),
    client.Option(("events",), "--variable", "VARIABLE", "only of this variable, 0 to 63",
                  client.parse_variable),
    client.Option(("events",), "--what", "KIND", "only this kind: state, rebooted, alert, ..."),
    client.Option(("events",), "--since", "TIME", "only of the last 10min, 2h, ...",
                  client.parse_duration),
    client.Option(("events",), "--limit", "N", "maximum number of events, the newest ones (50)",
                  partial(client.parse_number, low=1, high=10**6), {"default": 50}),
    client.Option(MUTERS, "match", "LABEL=VALUE", "about what: site=north name=pump-*",
                  extra={"nargs": "*", "default": []}),
    client.Option(MUTERS, "--for", "TIME", "duration: 30min, 2h (ack: 24h)",
                  client.parse_duration, {"dest": "duration"}),
    client.Option(MUTERS, "--why", "TEXT", "the reason"),
    client.Option(MUTERS, "--end", "N", "end the mute with this number",
                  partial(client.parse_number, low=1, high=10**9 - 1)),
    client.Option(ASKERS, "--fleet", "ADDRESS", f"the fleet ({ADDRESS})"),
    client.Option(ASKERS, "--token-file", "FILE", f"its first line is the token (${TOKEN_ENV})"),
    client.Option(ASKERS, "--user", "NAME", "a user of the fleet's web.config.file"),
    client.Option(ASKERS, "--password-file", "FILE", "its first line is the user's password"),
    client.Option(ASKERS, "--ca-file", "FILE", "certificates that the fleet's may be signed by"),
    client.Option(ASKERS, "-t --timeout", "TIME", "give up after this time (10s)",
                  client.parse_duration, {"default": 10_000}),
    client.Option(ASKERS, "--json", "", "print JSON"),
]


def build_parser(name: str) -> client.Parser:
    """The parser of a command, or for "" of none."""
    if name:
        command = COMMANDS[name]
        prog = f"{client.PROGRAM} {name}"
        about, usage, epilog = command.about, f"{prog} {command.arguments} [OPTION]...", ""
    else:
        prog = client.PROGRAM
        about = "\n".join(["Polls thousands of Dumpulse agents, and reports changes.", "", *(
            f"  %(prog)s {f'{word} {command.arguments}':28} {command.summary}"
            for word, command in COMMANDS.items())])
        usage, epilog = f"{prog} COMMAND ...", STATUSES
    parser = client.Parser(prog=prog, usage=" ".join(usage.split()), description=about,
                           epilog=epilog, allow_abbrev=False,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-V", "--version", action="version", help="show the version and exit",
                        version=f"{client.PROGRAM} {VERSION} (experimental)")
    if not name:
        parser.add_argument("command", nargs="?", default="", help=argparse.SUPPRESS)
    for option in OPTIONS:
        if name in option.commands:
            keywords: dict[str, Any] = {"type": option.parse, "metavar": option.metavar} \
                if option.metavar else {"action": "store_true"}
            parser.add_argument(*option.flags.split(), help=option.help,
                                **{**keywords, **option.extra})
    return parser


def run_command(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    try:
        if not name:
            typed = build_parser("").parse_known_args(arguments)[0].command
            message = "name a command first" if not typed or arguments[0].startswith("-") else \
                f"{printable(typed)!r} is not a command"
            raise client.BadUsage(message + (similar(typed, COMMANDS)
                                             or f": {', '.join(COMMANDS)}")
                                  + f" (see {client.PROGRAM} --help)")
        parser = build_parser(name)
        options, unknown = parser.parse_known_intermixed_args(arguments[1:])
        if unknown:
            flags = [flag for option in OPTIONS if name in option.commands
                     for flag in option.flags.split() if flag.startswith("-")]
            word = unknown[0].partition("=")[0]
            if name == "serve" and not word.startswith("-"):
                raise client.BadUsage("name the configuration with --config.file "
                                      f"{printable(word)}")
            raise client.BadUsage(f"{printable(word)!r} is unknown{similar(word, flags)} "
                                  f"(see {parser.prog} --help)")
        try:
            return COMMANDS[name].run(options)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if name not in ASKERS or isinstance(error, UnicodeError):
                raise
            raise client.BadReport("answer", NOT_OURS) from error
    except client.Error as error:
        client.complain(str(error))
        return error.STATUS
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main() -> NoReturn:
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # See __main__.py.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    client.PROGRAM = "dumpulse-fleet"
    sys.stdout = sys.stdout or open(os.devnull, "w")  # It may be closed.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # ? for what the locale does not have
    try:
        try:
            status = run_command(sys.argv[1:])
        except SystemExit as end:  # After --help and --version.
            status = int(end.code or 0)
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + 13  # The status that a shell reports after SIGPIPE.
    except OSError as error:
        client.complain(f"cannot write: {error.strerror}")
        status = 1
    else:
        sys.exit(status)
    client.discard(sys.stdout)
    sys.exit(status)
