"""The description of the JSON interface, made from the table of its routes, as OpenAPI 3.1."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator, BaseModel, Field, PlainValidator, WithJsonSchema, create_model)

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.version import VERSION

Json = dict[str, Any]
LONGEST = 500  # characters of a parameter
STATES = [state.words for state in State]
OF_MATCH = "labels, name, site or variable; values may be globs"
OF_ACKNOWLEDGES = "it holds back reminders only, and ends when all is well"


def state_of(text: str) -> State:
    name = re.sub("[ _-]", "_", text).upper()
    if name not in State.__members__:
        raise ValueError(f"must be one of: {', '.join(STATES)}")
    return State[name]


def label_of(text: str) -> tuple[str, str]:
    key, equals, glob = text.partition("=")
    if not key or not equals or len(text) > LONGEST:
        raise ValueError("must be like rack=r1; the value may have * and ? in it")
    return key, glob


def printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be in one line")
    return text


def number(low: int, high: int) -> Any:
    return Annotated[int, Field(ge=low, le=high)]


TEXT = Annotated[str, Field(max_length=LONGEST)]
WORD = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)]
TIME = Annotated[float, Field(ge=0, le=999_999_999_999, allow_inf_nan=False)]
ONE_STATE = Annotated[State, PlainValidator(state_of), WithJsonSchema(
    {"type": "string", "enum": STATES})]
LABEL = Annotated[tuple[str, str], PlainValidator(label_of), WithJsonSchema(
    {"type": "string", "maxLength": LONGEST, "pattern": "^[^=]+="})]


def one(kind: Any, about: str, default: Any = None) -> Any:
    """A parameter. With `...` for its default, it must be given."""
    return kind, Field(default, description=about)


def many(kind: Any, about: str) -> Any:
    return list[kind], Field([], max_length=20, description=about)


PARAMETERS: Mapping[str, Any] = {
    "q": one(TEXT, "words, all of which are in the name, site, address or labels", ""),
    "state": many(ONE_STATE, "only agents in this state, or events that led to it"),
    "site": many(TEXT, "only agents of this site"),
    "label": many(LABEL, "only agents with this label: rack=r1; the value may be a glob"),
    "sort": one(Literal["worst", "name"], "the worst state first, or by name", "worst"),
    "offset": one(number(0, 10_000_000), "skip so many agents", 0),
    "limit": one(number(1, 1000), "at most so many", 100),
    "agent": one(TEXT, "only of this agent; for events, it may be a glob", ""),
    "variable": one(number(0, 63), "only events of this variable"),
    "what": one(TEXT, "only events of this kind: state, rebooted, clock, …", ""),
    "since": one(TIME, "only events at or after this Unix time, in seconds"),
    "until": one(TIME, "only events before this Unix time, in seconds"),
    "before": one(number(1, 10 ** 18 - 1), "only events with a lower number, for the next page"),
    "name": one(TEXT, "the agent's name", ...),
    "number": one(number(1, 10 ** 18 - 1), "the mute's number", ...),
    "seen": one(TEXT, "the version of the last answer with agents", ""),
    "shard": one(number(0, 4095), "the shard, from 0", 0),
    "of": one(number(1, 4096), "of so many shards", 1)}


class NewMute(BaseModel):
    """What a request for a mute says."""

    model_config = {"extra": "forbid", "strict": True}
    match: Annotated[dict[WORD, WORD], Field(min_length=1, max_length=20, description=OF_MATCH)]
    seconds: Annotated[float, Field(ge=1, le=366 * 86400, allow_inf_nan=False)]
    why: TEXT = ""
    begins: TIME = Field(default_factory=time.time, description="Unix time; else now")
    by: TEXT = Field("", description="for those who share a token; a user is who asks")
    acknowledges: bool = Field(False, description=OF_ACKNOWLEDGES)


class Route(NamedTuple):
    method: str
    path: str
    handler: str  # the method of Site
    about: str
    parameters: Sequence[str] = ()  # of PARAMETERS
    answer: str = ""  # a schema; empty: not JSON
    kind: str = "application/json"  # of the answer
    body: str = ""  # a schema
    errors: Sequence[int] = ()  # besides those that every route may give

    def model(self) -> type[BaseModel]:
        """Of its parameters."""
        fields = {name: PARAMETERS[name] for name in self.parameters}
        return create_model(self.handler, __config__={"extra": "forbid"}, **fields)


def record(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False,
            "required": [*properties]}


def bare(model: type[BaseModel]) -> Json:
    """Its schema, without the titles that pydantic makes of the names, and defaults of nothing."""
    def untitled(part: Any) -> Any:
        if isinstance(part, list):
            return [untitled(each) for each in part]
        return part if not isinstance(part, dict) else {
            key: untitled(each) for key, each in part.items()
            if not (key == "title" and isinstance(each, str))
            and not (key == "default" and each is None)}

    found: Json = untitled(model.model_json_schema())
    return found


def of(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def several(item: Json) -> Json:
    return {"type": "array", "items": item}


STRING: Json = {"type": "string"}
YES: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "minimum": 0}
SECONDS: Json = {"type": "number", "minimum": 0}
MOMENT: Json = {"type": ["number", "null"], "minimum": 0, "description": "Unix time in seconds"}
NODE: Json = {"type": "integer", "minimum": 0, "maximum": 63}
BYTE: Json = {"type": ["integer", "null"], "minimum": 0, "maximum": 255}
CHANGING: Json = {"name": STRING, "state": of("State"), "since": MOMENT, "heard_at": MOMENT,
                  "muted": YES, "acknowledged": {
                      **record({"by": STRING, "until": {"type": "number"}, "why": STRING}),
                      "type": ["object", "null"], "description": "who takes care of its trouble"},
                  "counts": of("Counts"), "pips": {
                      **STRING, "description": "of each expected variable its state, as a digit: "
                      "see the metric dumpulse_variable_state"},
                  "worst": {"type": ["string", "null"], "description": "its worst variable, if one "
                            "is bad"}}
AGENT: Json = {**CHANGING, "address": STRING, "site": STRING, "parent": STRING,
               "labels": {"type": "object", "additionalProperties": STRING},
               "not_authenticated": {
                   **several(STRING), "description": "its variables that anybody can forge, "
                   "although the agent has a key: it accepts them in version 1"}}
SCHEMAS: Json = {
    "State": {"type": "string", "enum": STATES},
    "Counts": {"type": "object", "description": "how many are in which state",
               "propertyNames": of("State"), "additionalProperties": COUNT},
    "Error": record({"error": STRING}),
    "Done": record({"done": STRING}),
    "Agent": record(AGENT),
    "Agents": record({"version": STRING, "total": COUNT, "agents": several(of("Agent"))}),
    "Changes": record({
        "version": STRING, "now": {"type": "number"}, "heard_at": MOMENT, "trouble": STRING,
        "reset": YES, "agents": several(record(CHANGING))}),
    "Variable": record({
        "variable": NODE, "name": STRING, "expected": YES, "authenticated": {
            "type": ["boolean", "null"], "description": "null: its agent has no key"},
        "state": of("State"),
        "since": MOMENT, "value": BYTE, "sender": BYTE, "heard_at": MOMENT,
        "at_least": {**YES, "description": "it may have been heard even earlier"},
        "boot": {**record({"at": MOMENT, "at_least": YES, "words": STRING}),
                 "type": ["object", "null"], "description": "the last restart of its node"},
        "warn": SECONDS, "crit": SECONDS, "low": BYTE, "high": BYTE}),
    "AgentInFull": record({
        **AGENT, "profile": STRING, "tick": SECONDS, "period": SECONDS,
        "timeout": SECONDS, "misses": COUNT,
        "round_trip": {"type": ["number", "null"]}, "reports": COUNT, "lost": COUNT,
        "late": COUNT, "bad": COUNT, "reboots": COUNT,
        "variables": {**several(of("Variable")), "minItems": 64, "maxItems": 64}}),
    "Uptime": record({"cells": several(record({
        "variable": {"type": ["integer", "null"], "description": "null: the agent itself"},
        **{word: {"type": ["number", "null"], "description": f"percent of the last {hours} hours "
                  "that were well, of those that were seen"}
           for word, hours in (("day", 24), ("week", 168), ("month", 720))},
        **{f"{word}_seen": {"type": "number", "description": "seconds of it that were seen"}
           for word in ("day", "week", "month")},
        **{word: {**several({"anyOf": [of("State"), {"type": "null"}]}),
                  "description": f"the worst state of each of the last {count}, the oldest first"}
           for word, count in (("hours", 24), ("minutes", 60))}}))}),
    "Event": record({
        "number": COUNT, "at": {"type": "number"}, "agent": STRING,
        "variable": {"type": ["integer", "null"]}, "name": {
            **STRING, "description": "of the variable, if it is still configured"},
        "what": STRING, "was": STRING, "now": STRING,
        "lasted": {"type": ["number", "null"]}, "site": STRING}),
    "Events": record({"events": several(of("Event"))}),
    "Mute": record({"match": {"type": "object", "additionalProperties": STRING,
                              "description": OF_MATCH}, "why": STRING, "by": STRING,
                    "acknowledges": {**YES, "description": OF_ACKNOWLEDGES}, "number": COUNT,
                    "begins": {"type": "number"}, "ends": {"type": "number"}}),
    "Mutes": record({"mutes": several(of("Mute"))}),
    "NewMute": bare(NewMute),
    "Group": record({"name": STRING, "match": {"type": "object"}, "members": COUNT,
                     "alive": COUNT, "at_least": COUNT, "enough": YES}),
    "Groups": record({"groups": several(of("Group"))}),
    "Summary": record({
        "now": {"type": "number"}, "heard_at": MOMENT,
        "period": {**SECONDS, "description": "the shortest of all agents"},
        "trouble": {**STRING, "description": "what is wrong with the fleet itself; empty: nothing"},
        "alertmanager": {**STRING, "description": "the address of its page; empty: none"},
        "agents": of("Counts"), "variables": of("Counts"), "muted": COUNT,
        "sites": several(record({"site": STRING, "agents": of("Counts")})),
        "you": record({"name": STRING, "may_change": YES})}),
    "Targets": several(record({"targets": several(STRING),
                               "labels": {"type": "object", "additionalProperties": STRING}})),
    "Document": {"type": "object"}}

ERRORS = {400: "a parameter or the body is wrong", 401: "a password or a token is needed, or wrong",
          403: "this must not be done, or not from there", 404: "there is no such thing",
          413: "the body is too long", 415: "the body must be application/json",
          421: "the name of the host is not one of this machine",
          503: "too much is asked at once: try again"}
EVERY = (400, 401, 421, 503)  # any route may give these
CHANGES = (403, 413, 415)  # and these, if it changes something


def error_statuses(route: Route) -> list[int]:
    return sorted({*EVERY, *(CHANGES if route.method != "GET" else ()), *route.errors})


def document(routes: Sequence[Route]) -> Json:
    paths: Json = {}
    for route in routes:
        known = bare(route.model())
        operation: Json = {"operationId": route.handler, "summary": route.about, "parameters": [
            {"name": name, "in": "path" if f"{{{name}}}" in route.path else "query",
             "required": name in known.get("required", ()),
             "description": schema.pop("description"), "schema": schema}
            for name, schema in known["properties"].items()]}
        if route.body:
            operation["requestBody"] = {"required": True, "content": {
                "application/json": {"schema": of(route.body)}}}
        if route.method != "GET":
            operation["security"] = [{"token": []}, {"password": []}]
        operation["responses"] = {"200": {"description": "fine", "content": {
            route.kind: {"schema": of(route.answer) if route.answer else STRING}}}}
        for status in error_statuses(route):
            operation["responses"][str(status)] = {"description": ERRORS[status], "content": {
                "application/json": {"schema": of("Error")}}}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dumpulse fleet", "version": VERSION,
                 "license": {"name": "MIT", "identifier": "MIT"},
                 "description": "Asks thousands of agents, and says what changed."},
        "servers": [{"url": "/"}],
        "security": [{}, {"password": []}, {"token": []}],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": {
            "password": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer"}}}}
