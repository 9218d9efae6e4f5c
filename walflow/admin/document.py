"""The JSON document of /status, which the daemon writes and `walflow status` reads."""

from typing import Literal

from msgspec import Struct

Number = int | float


class Shut(Struct):
    """The reason why a source may not read: `by` is a sink's name, "window" or "drain"."""

    by: str
    reason: str


class Breaker(Struct):
    """The reason why a sink stops its sources: one of a few fixed words, and the sink's message."""

    reason: str
    text: str


class LaneStatus(Struct):
    """Of a log with several lanes: what the sinks of one lack, and why it may not send. `seconds`: the age of the
    oldest event that they lack."""

    name: str
    events: int
    bytes: int
    gate: list[Shut]
    seconds: int = 0


class FailedStatus(Struct):
    """Events that a sink has failed and that wait to be sent again. `lane`: of a log with several.
    `position`: of the first one.
    `tries`: how often they failed; `attempts`: those that count for `max_attempts`. `seconds`: until the next try."""

    lane: str
    position: int
    events: int
    sink: str
    tries: int
    attempts: int
    seconds: float
    cause: str


class FailureStatus(Struct):
    """The last failure of a sink. `position`: of the event in its log, 0 if it has none. `row`: tries that failed
    since the sink took something; 0: it has taken other events since. `seconds`: since the trouble began; `ago`:
    since the last failure. `waiting`: events that it has failed and that wait to be sent again; `first`: the lowest
    position of these, `tries`: how often that one failed. `advice`: what to do."""

    cause: str
    position: int
    row: int
    seconds: float
    ago: float
    waiting: int = 0
    first: int = 0
    tries: int = 0
    advice: str = ""


class FrontierStatus(Struct):
    """Of a sink that stores positions with its rows: `position` is the highest that it has of the log in this
    directory, and `lag` how many of the log are above it."""

    log: str
    position: int
    lag: int


class ConsumerStatus(Struct):
    """Of a log that others read: `position` is the first one that this reader has not committed, `lag` how many
    events it has not. `away`: for how many seconds events have waited for it while it was not connected."""

    name: str
    position: int
    lag: int
    away: int


class LettersStatus(Struct):
    """Of a log: what a sink has rejected and it keeps. `events`: how many. `going`: how many went to the sink again
    and have no outcome yet."""

    sink: str
    events: int
    going: int


class RequestStatus(Struct):
    """Of the last seconds: requests per second, and the seconds that half of them, and 99 of 100, took at most."""

    per_second: float
    median: float
    p99: float


class ConnectorStatus(Struct):
    """`rates` are events per second over the last seconds, by what became of them; `events` those since the start.
    `log` is there for a connector that has a log: positions, backlog, bytes. `inner`: what it takes, it sends on, as
    a log or a buffer does. `held_by`: of a log, one line for each sink or operator that holds events of it now.
    `gate`: why it may not send at all; `lanes` have reasons of their own. `failed_events`: how many of its events
    have failed at a sink and wait to be sent again; `failed`: the oldest 100 parts of a block among them. `holders`:
    of a log, the sinks and operators that hold events of it now. `failure`: of a sink, the last one. `requests`: of a
    sink of requests. `frontiers`: of a table. `consumers`: of a log that others read. `letters`: of a log, by sink,
    where there are some."""

    name: str
    type: str
    state: Literal["starting", "up", "restarting", "finished", "stopped"]
    reason: str
    restarts: int
    rates: dict[str, float]
    events: dict[str, int]
    inflight_bytes: int
    window_bytes: int
    gate: list[Shut]
    breaker: Breaker | None = None
    log: dict[str, Number] | None = None
    inner: bool = False
    held_by: list[str] = []
    lanes: list[LaneStatus] = []
    failed_events: int = 0
    failed: list[FailedStatus] = []
    holders: list[str] = []
    failure: FailureStatus | None = None
    requests: RequestStatus | None = None
    frontiers: list[FrontierStatus] = []
    consumers: list[ConsumerStatus] = []
    letters: list[LettersStatus] = []


class PipelineStatus(Struct):
    """`keeps`: of a pipeline that keeps `state` or windows, its metrics of these."""

    name: str
    inputs: list[str]
    outputs: list[str]
    events: dict[str, int] = {}
    keeps: dict[str, Number] | None = None


class LinkStatus(Struct):
    source: str
    source_port: str
    target: str
    target_port: str


class FlowStatus(Struct):
    name: str
    connectors: list[ConnectorStatus]
    pipelines: list[PipelineStatus]
    links: list[LinkStatus]


class StandstillStatus(Struct):
    """A source that has events while none of them is delivered: the reason, and the sinks or operators that hold its
    events."""

    source: str
    seconds: int
    reason: str
    held_by: list[str]


class WaitStatus(Struct):
    """A job on a thread that does not end. `who`: a connector, or a lane of one. `call`: what it waits for, as a call
    of the system and its file."""

    who: str
    call: str
    seconds: float


class ReloadStatus(Struct):
    """The last reload. `by`: who asked; `asked`: seconds since 1970; `flows`: a hash of the flow files that it
    checked."""

    by: str
    asked: float
    phase: str
    flows: str


class Status(Struct):
    version: str
    pid: int
    uptime_seconds: float
    state: Literal["running", "stopping"]
    ready: bool
    not_ready: list[str]
    loop_lag_seconds: float
    flows: list[FlowStatus]
    standstills: list[StandstillStatus] = []
    waits: list[WaitStatus] = []
    reload: ReloadStatus | None = None
