"""python3 -m dumpulse_fleet is the command dumpulse-fleet."""

import signal


def main() -> None:
    # Until the modules are loaded, Ctrl-C ends the program without a word. A background job of a
    # script ignores it, and shall go on.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dumpulse_fleet import command
    command.main()


if __name__ == "__main__":
    main()
