"""The configuration of a fleet: a file in TOML, checked to its last key. What the file says is
data, and nothing in it starts anything. The sections are in files beside this one."""

import dataclasses
import re
import tomllib
from typing import Annotated

from dumpulse_fleet.config.agents import Agents, Source
from dumpulse_fleet.config.outputs import AlertSettings, Web, read_alerts, read_status
from dumpulse_fleet.config.toml_reader import (
    LARGEST, PATH, LineNumbers, Mistake, Mistakes, Reader, checked, shown_path)
from dumpulse_fleet.config.values import (
    DAY, duration, number, read_file, similar)
from dumpulse_fleet.model.agents import Agent, Part
from dumpulse_fleet.model.naming import Wrong, hide, shown

SECTIONS = ("collector", "defaults", "agents", "alerts", "notify", "web", "status")


@dataclasses.dataclass(frozen=True)
class Collecting:
    # The folder for the events and for what is known over a restart.
    state: Annotated[str, PATH] = "/var/lib/dumpulse-fleet"
    # s after the start in which no agent is unreachable, and nothing is told.
    grace: Annotated[float, checked(duration, 0, DAY, zero=True)] = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Collecting):
    path: str
    agents: tuple[Agent, ...]  # Those that the file lists.
    sources: tuple[Source, ...]
    alerts: AlertSettings
    web: Web
    status: tuple[Part, ...]  # The parts of the public page.


def read_sections(reader: Reader) -> Config:
    """What is wrong is noted by the reader, and has its default here."""
    for name in reader.data:
        if name not in SECTIONS:
            reader.wrong((name,), f"{shown(name)} is unknown" + (
                similar(name, SECTIONS) or f": use {', '.join(SECTIONS)}"))
    collecting = reader.section("collector", Collecting)
    of_agents = Agents(reader)
    agents, sources = of_agents.read()
    # Whether there are more agents than these: of sources, or in a table that is wrong.
    incomplete = bool(sources or reader.mistakes)
    if not agents and not incomplete:
        reader.wrong((), "there are no agents: write [[agents]] with an address")
    of_agents.check_parents(agents, incomplete)
    return Config(
        path=reader.path, agents=agents, sources=sources, alerts=read_alerts(reader),
        web=reader.section("web", Web), status=read_status(reader, agents, incomplete),
        **vars(collecting))


def load(path: str) -> Config:
    """Reads and checks a configuration. Mistakes: it cannot be used."""
    try:
        content = read_file(path, LARGEST).decode("utf-8-sig").replace("\r\n", "\n")
        data = tomllib.loads(content)
    except Wrong as error:
        hint = "name your own with --config.file"
        raise Mistakes([Mistake("", 0, f"{error}: {hint}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Mistakes([Mistake(shown_path(path), line, "this is not UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        parts = re.fullmatch(r"(.*) \((?:at line ([0-9]+), column [0-9]+|at end of document)\)",
                             str(error), re.DOTALL)
        message, line = (parts[1], int(parts[2] or 0)) if parts else (str(error), 0)
        message += ": is it text without quotes?" if message == "Invalid value" else ""
        raise Mistakes([Mistake(shown_path(path), line or content.count("\n") + 1,
                                f"this is not TOML: {hide(message)}")]) from None
    except (ValueError, RecursionError):
        raise Mistakes([Mistake(shown_path(path), 0, "this is not TOML: a number is too long, or "
                                "lists are nested too deeply")]) from None
    reader = Reader(path, LineNumbers(content), data)
    config = read_sections(reader)
    if reader.mistakes:
        raise Mistakes(reader.mistakes)
    return config
