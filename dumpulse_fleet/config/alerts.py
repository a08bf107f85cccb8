"""[alerts]: when somebody is told.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
from functools import partial

from dumpulse_fleet.config.notify import Notify, read_notify
from dumpulse_fleet.config.reading import Key, Reader
from dumpulse_fleet.config.values import DAY, HTTP, Secret, duration, number, url


@dataclasses.dataclass(frozen=True)
class Alerts:
    notify: tuple[Notify, ...] = ()
    wait: float = 30.0  # s in which what fails together is gathered for one notification
    again: float = 300.0  # s between two of one site, unless the news is worse
    remind: float = 4 * 3600.0  # s between two notifications of what is not over; 0: none
    blind: int = 50  # percent of the agents silent in one round: it is the collector that is blind
    ping: Secret = Secret()  # asked for while all is well here: a dead man's switch
    ping_every: float = 60.0  # s


def read_alerts(reader: Reader) -> Alerts:
    values = reader.section("alerts", {
        "wait": Key(partial(duration, low=0, high=3600, zero=True), 30.0),
        "again": Key(partial(duration, low=0, high=DAY, zero=True), 300.0),
        "remind": Key(partial(duration, low=60, high=30 * DAY, zero=True), 4 * 3600.0),
        "blind": Key(partial(number, low=1, high=100), 50),
        "ping": Key(partial(url, schemes=HTTP), Secret()),
        "ping_file": Key(lambda value: url(reader.secret(value), HTTP), Secret()),
        "ping_every": Key(partial(duration, low=1, high=DAY), 60.0)})
    if values["ping"] and values["ping_file"]:
        reader.wrong(("alerts", "ping_file"), "alerts: use one of ping and ping_file")
    ping_file = values.pop("ping_file")
    return Alerts(read_notify(reader), **{**values, "ping": values["ping"] or ping_file})
