"""[alerts]: when somebody is told.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
from typing import Annotated

from dumpulse_fleet.config.notify import Notify, read_notify
from dumpulse_fleet.config.reading import Reader, checked, in_file
from dumpulse_fleet.config.values import DAY, HTTP, Secret, duration, number, url_of


@dataclasses.dataclass(frozen=True)
class Rules:
    """Times in seconds."""

    # What fails together in this time is gathered for one notification.
    wait: Annotated[float, checked(duration, 0, 3600, zero=True)] = 30.0
    # Between two of one site, unless the news is worse.
    again: Annotated[float, checked(duration, 0, DAY, zero=True)] = 300.0
    # Between two of what is not over; 0: none.
    remind: Annotated[float, checked(duration, 60, 30 * DAY, zero=True)] = 4 * 3600.0
    # Percent of the agents silent in one round: it is the collector that is blind.
    blind: Annotated[int, checked(number, 1, 100)] = 50
    # Asked for while all is well here: a dead man's switch.
    ping: Annotated[Secret, checked(url_of, HTTP)] = Secret()
    ping_file: Annotated[Secret, in_file(url_of, HTTP)] = Secret()
    ping_every: Annotated[float, checked(duration, 1, DAY)] = 60.0


@dataclasses.dataclass(frozen=True)
class Alerts(Rules):
    notify: tuple[Notify, ...] = ()


def read_alerts(reader: Reader) -> Alerts:
    found = reader.section("alerts", Rules)
    if found.ping and found.ping_file:
        reader.wrong(("alerts", "ping_file"), "alerts: use one of ping and ping_file")
    return Alerts(**{**vars(found), "ping": found.ping or found.ping_file, "ping_file": Secret()},
                  notify=read_notify(reader))
