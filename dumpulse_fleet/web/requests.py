"""What requests of the JSON interface may say: parameters, and bodies."""

import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, PlainValidator

from dumpulse_fleet.model.agents import State

Json = dict[str, Any]
LONGEST = 500  # Characters of a parameter.
STATES = [state.words for state in State]


def state_of(text: str) -> State:
    name = re.sub("[ _-]", "_", text).upper()
    if name not in State.__members__:
        raise ValueError(f"must be one of: {', '.join(STATES)}")
    return State[name]


def printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be in one line")
    return text


def number(low: int, high: int) -> Any:
    return Annotated[int, Field(ge=low, le=high)]


def many(kind: Any) -> Any:
    return list[kind], Field([], max_length=20)


TEXT = Annotated[str, Field(max_length=LONGEST)]
WORD = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)]
TIME = Annotated[float, Field(ge=0, le=999_999_999_999, allow_inf_nan=False)]
ONE_STATE = Annotated[State, PlainValidator(state_of)]


# Each with its default. With `...`, it must be given.
PARAMETERS: Mapping[str, Any] = {
    "q": (TEXT, ""),  # Words, all of which are in the name, site, address or labels.
    "state": many(ONE_STATE),  # States of agents; for events, the new state.
    "site": many(TEXT),
    "sort": (Literal["worst", "name"], "worst"),
    "offset": (number(0, 10_000_000), 0),
    "limit": (number(1, 1000), 100),
    "agent": (TEXT, ""),  # For events, it may be a glob.
    "variable": (number(0, 63), None),
    "what": (TEXT, ""),  # The kind of events: state, rebooted, clock, …
    "since": (TIME, None),
    "until": (TIME, None),
    "before": (number(1, 10 ** 18 - 1), None),  # The lowest number of the page of events before.
    "name": (TEXT, ...),
    "number": (number(1, 10 ** 18 - 1), ...),
    "seen": (TEXT, ""),  # The version of the last answer with agents.
    "shard": (number(0, 4095), 0),
    "of": (number(1, 4096), 1)}


class NewMute(BaseModel):
    """What a request for a mute says."""

    model_config = {"extra": "forbid", "strict": True}
    match: Annotated[dict[WORD, WORD], Field(min_length=1, max_length=20)]
    seconds: Annotated[float, Field(ge=1, le=366 * 86400, allow_inf_nan=False)]
    why: TEXT = ""
    begins: TIME = Field(default_factory=time.time)
    by: TEXT = ""  # For those who share a token; a user is who asks.
    acknowledges: bool = False
