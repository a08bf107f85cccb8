"""The command dumpulse-fleet, which runs the service."""

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from dumpulse_fleet import client
from dumpulse_fleet.model.version import VERSION

CONFIG_FILE = "/etc/dumpulse/fleet.toml"
ABOUT = """\
Polls all Dumpulse agents of a configuration. Shows them on a page, exports to
Prometheus, and sends alerts. SIGHUP reads the configuration again, SIGTERM
ends."""
STATUSES = """\
exit status: 0 fine; 1 it cannot start now, the collector failed, or the output
could not be written; 2 bad usage, or a mistake in the configuration"""


def run_serve(options: argparse.Namespace) -> int:
    # Those who want the help need not wait for what only the service needs.
    from dumpulse_fleet.config.file import load
    from dumpulse_fleet.config.toml_reader import Mistakes
    try:
        config = load(options.config_file)
    except Mistakes as error:
        for mistake in error.all:
            client.complain(str(mistake))
        return client.BadUsage.STATUS
    from dumpulse_fleet import service
    return service.check(config) if options.check else service.run(config)


def build_parser() -> client.Parser:
    parser = client.Parser(
        prog=client.PROGRAM, usage=f"{client.PROGRAM} serve [OPTION]...", description=ABOUT,
        epilog=STATUSES, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-V", "--version", action="version", help="show the version and exit",
                        version=f"{client.PROGRAM} {VERSION} (experimental)")
    parser.add_argument("command", choices=["serve"], help=argparse.SUPPRESS)
    parser.add_argument("--config.file", dest="config_file", metavar="FILE", default=CONFIG_FILE,
                        help=f"the configuration ({CONFIG_FILE})")
    parser.add_argument("--config.check", dest="check", action="store_true",
                        help="print what is wrong with it, and exit")
    return parser


def run_command(arguments: Sequence[str]) -> int:
    try:
        return run_serve(build_parser().parse_args(arguments))
    except client.Error as error:
        client.complain(str(error))
        return error.STATUS
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main() -> NoReturn:
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # See __main__.py.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    client.PROGRAM = "dumpulse-fleet"
    try:
        try:
            status = run_command(sys.argv[1:])
        except SystemExit as end:  # After --help and --version.
            status = int(end.code or 0)
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        client.complain(f"cannot write: {error.strerror}")
        client.discard(sys.stdout)
        status = 1
    sys.exit(status)
