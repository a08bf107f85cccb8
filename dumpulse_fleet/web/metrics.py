"""What Prometheus reads, written as text from the arrays: the parts of a line that never change are
made once, and numpy picks them. A scrape is made in blocks, so its memory does not grow with the
fleet."""

import math
import os
import resource
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.naming import agent_labels
from dumpulse_fleet.model.table import VARIABLES, Table

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BLOCK = 256  # Agents that are written at once: about 1 MB of text.
SHARD = 128  # Agents of a shard that http_sd lists, at most, on average.
SHARDS_MAX = 4096  # Also what /metrics/agents takes for `of`.
STATES = ", ".join(f"{state.value} {state.words}" for state in State)

Array = NDArray[Any]


class Family(NamedTuple):
    """All series of one name."""

    name: str
    help: str
    form: bytes = b"%d"  # Format of its numbers.

    @property
    def head(self) -> bytes:
        kind = "counter" if self.name.endswith("_total") else "gauge"
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {kind}\n".encode()


STATE = Family("dumpulse_variable_state", f"State of the variable: {STATES}.")
VALUE = Family("dumpulse_variable_value",
               "Value of the last heartbeat; absent while the agent does not answer.")
BEAT = Family("dumpulse_variable_last_heartbeat_timestamp_seconds",
              "Unix time of the last heartbeat; 0 if the agent never heard one.", b"%.3f")
AGENT_STATE = Family("dumpulse_agent_state",
                     f"State of the agent, the worst of its expected variables: {STATES}.")
AGENT_INFO = Family("dumpulse_agent_info", "Always 1; the address is a label.")
HEARD = Family("dumpulse_agent_last_report_timestamp_seconds",
               "Unix time of the last good report; 0 if there was none.", b"%.3f")
ROUND_TRIP = Family("dumpulse_agent_round_trip_seconds",
                    "Time from the last answered request to its report.", b"%.6f")
COUNTERS = {  # By array of the table.
    "reports": Family("dumpulse_agent_reports_total", "Good reports."),
    "lost": Family("dumpulse_agent_requests_lost_total", "Requests without an answer."),
    "late": Family("dumpulse_agent_late_reports_total", "Reports that came after their round."),
    "bad": Family("dumpulse_agent_bad_reports_total", "Damaged reports."),
    "seen_s": Family("dumpulse_agent_seen_seconds_total",
                     "Time in which the fleet saw it, and its state was known."),
    "well_s": Family("dumpulse_agent_alive_seconds_total", "Part of this in which it was alive."),
    "reboots": Family("dumpulse_agent_reboots_total", "Reboots that were noticed.")}


def escape(text: str) -> str:
    """The value of a label. What UTF-8 does not have, a lone surrogate, becomes a question mark."""
    return text.encode("utf-8", "replace").decode().replace("\\", r"\\").replace(
        "\n", r"\n").replace('"', r'\"')


def variable_labels(variable: client.Variable) -> dict[str, str]:
    name = {"name": variable.name} if variable.name else {}
    return {"variable": str(variable.number), **name}


def joined(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{escape(text)}"' for name, text in labels.items())


def objects(texts: Sequence[bytes]) -> NDArray[np.object_]:
    """An array of Python's bytes, from which numpy can pick."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


class Metrics:
    """Writes the series of a table's agents. It keeps about 200 bytes an agent."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._hash = np.array([zlib.crc32(agent.name.encode("utf-8", "replace"))
                               for agent in table.agents], np.uint32)
        self._agents = objects([f"{{{joined(agent_labels(agent))}".encode()
                                for agent in table.agents])
        profiles = list({id(agent.profile): agent.profile for agent in table.agents}.values())
        index = {id(profile): number for number, profile in enumerate(profiles)}
        self._profile = np.array([index[id(agent.profile)] for agent in table.agents], np.intp)
        self._tick = np.array([agent.profile.tick for agent in table.agents], np.float64)
        # Variables that somebody has named are written even if nobody has ever heard them.
        self._named = np.zeros((len(profiles), VARIABLES), np.bool_)
        self._variables = np.empty((len(profiles), VARIABLES), object)
        for number, profile in enumerate(profiles):
            variables = profile.settings.variables
            self._named[number] = [variable.listed or variable.expected for variable in variables]
            self._variables[number] = [f",{joined(variable_labels(variable))}}} ".encode()
                                       for variable in variables]

    @property
    def shards(self) -> int:
        """A power of two, so that it seldom changes when agents come and go."""
        count = max(1, math.ceil(len(self.table.agents) / SHARD))
        return int(min(SHARDS_MAX, 2 ** math.ceil(math.log2(count))))

    def rows(self, shard: int = 0, of: int = 1) -> Array:
        """By the agent's name: an agent keeps its shard when others come and go."""
        return np.flatnonzero(self._hash % np.uint32(of) == shard)

    def write(self, rows: Array) -> Iterator[bytes]:
        """All series of these agents: a family after the other, as Prometheus wants it."""
        table = self.table
        with table.lock:  # These copies take 1 kB an agent, 1 ms for 10,000.
            entry, state, stamped = table.entry[rows], table.state[rows], table.stamped[rows]
            clock, heard_at = table.clock[rows], table.heard_at[rows]
            agent_state, round_trip = table.agent_state[rows], table.round_trip[rows]
            counters = [(family, getattr(table, array)[rows]) for array, family in COUNTERS.items()]
        answered = heard_at > 0
        heard = answered[:, None] & (entry != 0)
        named = self._named[self._profile[rows]]
        tick = self._tick[rows]

        def beats(which: tuple[Array, Array]) -> Array:
            row = which[0]
            times = heard_at[row] - (clock[row] - stamped[which]) * tick[row]
            return np.where(heard[which], np.maximum(times, 0), 0)

        answers = agent_state < State.DAMAGED
        for family, shown, of_cells in (
                (STATE, heard | named, lambda which: state[which]),
                (VALUE, heard & answers[:, None], lambda which: entry[which].astype(np.uint8)),
                (BEAT, heard | (named & answered[:, None]), beats)):
            yield family.head
            for begin in range(0, len(rows), BLOCK):
                row, variable = np.nonzero(shown[begin:begin + BLOCK])
                row += begin
                yield lines(family, self._agents[rows[row]],
                            self._variables[self._profile[rows[row]], variable],
                            ends(family, of_cells((row, variable))))
        info = objects([f',address="{escape(table.agents[row].address)}"}} '.encode()
                        for row in rows.tolist()])
        end = objects([b"} "] * len(rows))
        yield AGENT_INFO.head
        yield lines(AGENT_INFO, self._agents[rows], info,
                    ends(AGENT_INFO, np.ones(len(rows), np.uint8)))
        every = np.ones(len(rows), np.bool_)
        for family, values, which in (
                (AGENT_STATE, agent_state, every), (HEARD, heard_at, every),
                (ROUND_TRIP, round_trip, answered),
                *((family, values, every) for family, values in counters)):
            yield family.head
            yield lines(family, self._agents[rows][which], end[which],
                        ends(family, values[which]))


def ends(family: Family, values: Any) -> Array:
    """The end of each line, and the name with which the next one begins."""
    form = family.form + b"\n" + family.name.encode()
    array = np.asarray(values)
    if array.dtype.itemsize == 1:
        few: Array = objects([form % number for number in range(256)])[array]
        return few
    return objects([form % number for number in array.tolist()])


def lines(family: Family, *columns: Array) -> bytes:
    """The lines whose parts these columns have. The last column is of ends()."""
    parts = np.empty((len(columns[0]), len(columns)), object)
    for number, column in enumerate(columns):
        parts[:, number] = column
    name = family.name.encode()
    return (name + b"".join(parts.ravel().tolist()))[:-len(name)]


def gzipped(blocks: Iterable[bytes]) -> Iterator[bytes]:
    press = zlib.compressobj(1, wbits=31)  # Level 6 takes three times as long for a third less.
    for block in blocks:
        yield press.compress(block)
    yield press.flush()


# ---------------------------------------------------------------- the fleet's own
FLEET_AGENTS = Family("dumpulse_fleet_agents", "Agents by state.")
FLEET_VARIABLES = Family("dumpulse_fleet_variables", "Variables by state.")
TROUBLE = Family("dumpulse_fleet_trouble",
                 "1 if this part of the fleet does not work: the log says why.")
# What the parts say of themselves: the part's own word, the series, and what it is.
OWN = {word: Family(f"dumpulse_{name}", about)
       for word, name, about in (line.split(" ", 2) for line in """\
rounds collector_rounds_total Rounds that have ended.
requests collector_requests_total Requests sent.
repeated collector_repeated_requests_total Requests sent again within their round.
reports collector_reports_total Good reports.
lost collector_lost_rounds_total Rounds without an answer.
bad collector_bad_reports_total Damaged reports.
late collector_late_reports_total Reports that came after their round, or twice.
skipped collector_skipped_rounds_total Rounds that did not begin: the collector was too late.
void collector_void_rounds_total Rounds of which nobody knows whether there was an answer.
overflowed collector_overflowed_packets_total Packets that found no room in the receive buffers.
strange collector_strange_packets_total Packets from strangers.
unsent collector_delayed_requests_total Requests for which the system had no room at first.
lookups_failed collector_failed_lookups_total Names of hosts that the name service did not find.
lateness collector_lateness_seconds How long after their time the last requests were sent.
cpu collector_cpu_seconds_total CPU time of the collector's thread.
events fleet_events_total Events that were stored.
events_lost fleet_events_lost_total Events that could not be kept.
logins_failed fleet_failed_logins_total Wrong passwords and tokens.
notified fleet_notifications_total Notifications sent.
unnotified fleet_notifications_failed_total Notifications that could not be sent.
given_up fleet_notifications_given_up_total Notifications that were tried for too long.
notifications_waiting fleet_notifications_waiting Notifications that wait to be sent.
alerts_open fleet_alerts_open Problems that were told.
alerts_muted fleet_alerts_muted Problems that a mute holds back.
alerts_held fleet_alerts_held Problems that a parent or a grace holds back.
blind fleet_blind 1 if so many agents are silent that the fleet itself must be at fault.
pings fleet_pings_total Pings of the dead man's switch.
pings_failed fleet_pings_failed_total Pings that did not arrive.
sources_failed fleet_source_failures_total Lists of agents that could not be read.
reloaded fleet_config_last_reload_successful 1 if the configuration that was read last is in force.
reloaded_at fleet_config_last_reload_success_timestamp_seconds When a configuration came in force.
""".splitlines())}
Samples = Iterable[tuple[Mapping[str, str], float]]


def text(family: Family, samples: Samples) -> bytes:
    """A family of few series."""
    rows = [family.head.decode()]
    for labels, value in samples:
        number = repr(float(value)).removesuffix(".0")
        number = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(number, number)
        rows.append(f"{family.name}{{{joined(labels)}}} {number}\n" if labels
                    else f"{family.name} {number}\n")
    return "".join(rows).encode()


def of_fleet(table: Table) -> Iterator[bytes]:
    """Sums over all agents."""
    for family, array in ((FLEET_AGENTS, table.agent_state), (FLEET_VARIABLES, table.state)):
        counts = np.bincount(array.ravel(), minlength=len(State))
        yield text(family, [({"state": state.words}, counts[state]) for state in State])


def of_collector(numbers: Mapping[str, float]) -> Iterator[bytes]:
    for word, value in numbers.items():
        yield text(OWN[word], [({}, value)])


def of_process() -> Iterator[bytes]:
    """As all exporters name them."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    page, tick = resource.getpagesize(), os.sysconf("SC_CLK_TCK")
    for name, about, value in (
            ("cpu_seconds_total", "CPU time of the process.", used.ru_utime + used.ru_stime),
            ("resident_memory_bytes", "Memory of the process.", int(fields[21]) * page),
            ("start_time_seconds", "Unix time at which the process started.",
             round(booted + int(fields[19]) / tick, 2)),
            ("open_fds", "Open files.", len(os.listdir("/proc/self/fd"))),
            ("max_fds", "Files that may be open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0])):
        yield text(Family(f"process_{name}", about), [({}, value)])
