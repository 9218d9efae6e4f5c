"""The options of `.option(…)`: read into one object, or refused with one line that says what is wrong."""

import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from pyspark_walflow import wire
from pyspark_walflow.client import Endpoint
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.kafka import HINTS, SAME
from pyspark_walflow.wire import WireKey

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"
FROM_COMMITTED: Final = -1  # no position is: the consumer's own
TOKEN_FILE: Final = "WALFLOW_TOKEN_FILE"
TOKEN: Final = "WALFLOW_TOKEN"
MAX_TOKEN: Final = 4096  # bytes of the file; a longer one is no token
COPY: Final = "option."
AUTO: Final = "auto"
MOST_TASKS: Final = 100_000
_UNITS: Final = {"k": 10, "m": 20, "g": 30}
_MILLISECONDS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,12}) ?(|ms|s|m|min|h|d)")


class Option(NamedTuple):
    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option("host", "127.0.0.1", "the daemon's host"),
    Option("port", str(wire.DEFAULT_PORT), "the daemon's port, as in `url` of the connector"),
    Option(
        "hosts",
        "",
        "many daemons, as `edge1:7700,edge2:7700`, instead of `host` and `port`: one source, whose rows have a first "
        "column `log`. A daemon that is away has nothing new. All have one token",
    ),
    Option("consumer", "spark", "one of the connector's `consumers`; each may have one streaming query at a time"),
    Option(
        "tokenFile",
        "",
        "a file with the token, which only the driver reads. Default: in the driver's environment, "
        "`WALFLOW_TOKEN_FILE` names the file, or `WALFLOW_TOKEN` is the token",
    ),
    Option(
        "tls", "false", "`true`: TLS; the daemon's certificate must be signed by an authority that the system trusts"
    ),
    Option(
        "cafile",
        "",
        "TLS; the daemon's certificate must be signed by an authority in this file, which must exist on every host",
    ),
    Option(
        "startingPosition",
        COMMITTED,
        "where to begin. `committed`: the first position that the consumer has not committed; `earliest`: the first "
        "position in the log, the default of `spark.read`; `latest`; or a position. An existing checkpoint overrides "
        "it",
    ),
    Option(
        "startingTimestamp",
        "",
        "where to begin, instead of startingPosition: the first event that arrived then or later, as far as the log "
        "has them (`retain`). Milliseconds since 1970, as of Kafka's source, or a time as `2026-11-28T06:00:00Z`. An "
        "existing checkpoint overrides it",
    ),
    Option(
        "newCheckpoint",
        "refuse",
        "`accept`: a new checkpoint may continue for a consumer for which another checkpoint has committed; [what "
        "that means for the output](#a-new-checkpoint)",
    ),
    Option("endingPosition", LATEST, "only for `spark.read`. `latest`, or the position before which it stops"),
    Option(
        "endingTimestamp",
        "",
        "only for `spark.read`, instead of endingPosition: it reads what arrived before that time",
    ),
    Option("maxRowsPerBatch", "200000", "the most rows of a micro-batch"),
    Option(
        "firstBatch",
        "all",
        "on Spark 4.0 and 4.1. `all`: the first batch of a start takes all that is in the log, for Spark does not "
        "say whether `availableNow` runs, which has one batch there. `bounded`: it does not run",
    ),
    Option(
        "minRowsPerBatch",
        "1",
        "a micro-batch waits until so many rows are in the log, but at most `maxTriggerDelay`. The first batch of a "
        "start does not wait, nor does a batch of `maxBytesPerBatch` bytes",
    ),
    Option(
        "maxTriggerDelay",
        "15m",
        "how long after the batch before it a micro-batch waits for `minRowsPerBatch`; a number with `ms`, `s`, `m`, "
        "`h` or `d`, alone: milliseconds",
    ),
    Option("maxBytesPerBatch", "64m", "the most bytes of a micro-batch, about; a number, also with `k`, `m`, `g`"),
    Option(
        "numPartitions",
        "auto",
        (
            "number of tasks of a batch; `auto`: one for each 16 MiB, "
            "but at least `minPartitions` and at most `maxPartitions`"
        ),
    ),
    Option("minPartitions", "1", "with `numPartitions` `auto`: the fewest tasks of a batch"),
    Option(
        "maxPartitions",
        "auto",
        "with `numPartitions` `auto`: the most tasks of a batch. `auto`: the driver's number of processors, for "
        "Spark does not tell a source how many the executors have; on a cluster give "
        "`spark.sparkContext.defaultParallelism`",
    ),
    Option("value", "string", "`string`, or `binary` for events that are not UTF-8"),
    Option(
        "metadata",
        "false",
        "`true`: two more columns: `ingest_ns long`, the time of arrival to the nanosecond, and `meta string`, the "
        "event's metadata as JSON, or null",
    ),
    Option("columns", "", "those that are needed, as `position,value`: the others are not made. Without it all are"),
    Option("failOnDataLoss", "true", "`false`: lost positions are logged, and the query continues after them"),
    Option(
        "localFiles",
        "true",
        "a worker on the daemon's machine reads the log's files itself if it may, and verifies them; the daemon only "
        "says where the events are. `false`: they come over the connection",
    ),
    Option("pollMs", "500", "milliseconds that the daemon waits for the next event before it answers"),
    Option(
        "retrySeconds",
        "60",
        "seconds that a planned batch waits for a daemon that went away, or a query for another one of its consumer",
    ),
)


COLUMNS: Final = ("position", "ingest_ts", "key", "value", "ingest_ns", "meta")
PLAIN_COLUMNS: Final = 4  # without `metadata`


class Options(NamedTuple):
    """`starting`, `ending`, `partitions`, `max_partitions`: None is latest or auto; earliest is position 0, committed
    FROM_COMMITTED. `starting_ns`, `ending_ns`: instead of them, since 1970; None: they were not given."""

    endpoint: Endpoint
    consumer: str
    token_file: str
    starting: int | None
    starting_ns: int | None
    new_checkpoint: bool
    ending: int | None
    ending_ns: int | None
    max_rows: int
    max_bytes: int
    min_rows: int
    first_bounded: bool
    max_delay: float  # seconds
    partitions: int | None
    min_partitions: int
    max_partitions: int | None
    binary: bool
    metadata: bool
    columns: Sequence[str]  # in the schema's order
    fail_on_data_loss: bool
    local_files: bool
    poll_ms: int
    retry_seconds: float

    @classmethod
    def of(cls, given: Mapping[str, str], also: Collection[str] = (), starting: str = COMMITTED) -> "Options":
        """`also`: further names, Spark's own. `starting`: where it begins unless told. Raises WalflowError."""
        options = _Given(_ours(given), also, {"startingPosition": starting})
        if options.text("hosts"):
            raise WalflowError("option hosts is for spark.read and spark.readStream: give host and port")
        cafile = options.text("cafile")
        tls = options.word("tls", "true", "false") == "true" or bool(cafile)
        consumer = options.text("consumer")
        if not consumer or not consumer.isprintable():
            raise WalflowError(f"option consumer is {consumer!r}: name one of the connector's `consumers`")
        max_rows, min_rows = options.number("maxRowsPerBatch", 1), options.number("minRowsPerBatch", 1)
        if min_rows > max_rows:
            raise WalflowError(
                f"option {options.said('minRowsPerBatch')} is {min_rows}, and a batch has at most {max_rows} rows "
                f"({options.said('maxRowsPerBatch')})"
            )
        min_partitions, max_partitions = (
            options.number("minPartitions", 1, MOST_TASKS),
            options.tasks("maxPartitions"),
        )
        if max_partitions is not None and min_partitions > max_partitions:
            raise WalflowError(f"option minPartitions is {min_partitions}, and maxPartitions is {max_partitions}")
        metadata = options.word("metadata", "true", "false") == "true"
        return cls(
            Endpoint(options.text("host"), options.number("port", 1, 65535), cafile if tls else None),
            consumer,
            options.text("tokenFile"),
            options.position("startingPosition", {COMMITTED: FROM_COMMITTED, EARLIEST: 0, LATEST: None}),
            options.moment("startingTimestamp", "startingPosition"),
            options.word("newCheckpoint", "refuse", "accept") == "accept",
            options.position("endingPosition", {LATEST: None}),
            options.moment("endingTimestamp", "endingPosition"),
            max_rows,
            options.size("maxBytesPerBatch"),
            min_rows,
            options.word("firstBatch", "all", "bounded") == "bounded",
            options.seconds("maxTriggerDelay"),
            options.tasks("numPartitions"),
            min_partitions,
            max_partitions,
            options.word("value", "string", "binary") == "binary",
            metadata,
            options.some_of("columns", COLUMNS if metadata else COLUMNS[:PLAIN_COLUMNS]),
            options.word("failOnDataLoss", "true", "false") == "true",
            options.word("localFiles", "true", "false") == "true",
            options.number("pollMs", 0, 10_000),
            float(options.number("retrySeconds", 0, 3600)),
        )

    @classmethod
    def each(cls, given: Mapping[str, str], starting: str = COMMITTED) -> "dict[str, Options]":
        """By what option hosts names; empty without it. Raises WalflowError."""
        options = _Given(_ours(given), (), {})
        hosts = [one.strip() for one in options.text("hosts").split(",") if one.strip()]
        common = {name: value for name, value in _ours(given).items() if name.lower() != "hosts"}
        if hosts and (also := [name for name in common if name.lower() in ("host", "port")]):
            raise WalflowError(f"option hosts says where the logs are: leave out {' and '.join(sorted(also))}")
        found: dict[str, Options] = {}
        for one in hosts:
            host, colon, port = one.rpartition(":")
            place = {"host": host, "port": port} if colon else {"host": one}
            found[one] = cls.of({**common, **place}, starting=starting)
        if len(found) < len(hosts):
            raise WalflowError("option hosts names a host twice")
        return found

    def key(self, environment: Mapping[str, str] = os.environ) -> WireKey:
        """Full right. Raises WalflowError."""
        file, said_by = self.token_file, "option tokenFile"
        if not file:
            file, said_by = environment.get(TOKEN_FILE, ""), TOKEN_FILE
        token = _read(file, said_by) if file else environment.get(TOKEN, "").strip()
        if not token:
            raise WalflowError(
                f"no token: name its file in option tokenFile or in {TOKEN_FILE} (the daemon made one at its first "
                "start, `token` in the connector's `path`)"
            )
        return WireKey.of_token(token)


class _Given:
    def __init__(self, given: Mapping[str, str], also: Collection[str], defaults: Mapping[str, str]) -> None:
        known = {option.name.lower(): option for option in OPTIONS}
        self._defaults = {name: option.default for name, option in known.items()}
        self._defaults |= {name.lower(): value for name, value in defaults.items()}
        self._values: dict[str, str] = {}
        self._said: dict[str, str] = {}  # where it was said in Kafka's words
        kafkas = {other.lower(): (other, ours) for other, ours in SAME.items()}
        for name, value in given.items():
            said, ours = kafkas.get(name.lower(), (name, name))
            if ours.lower() in known:
                self._take(ours, said, value)
            elif name.lower() not in {other.lower() for other in also}:
                raise WalflowError(_unknown(name, [*(option.name for option in OPTIONS), *SAME, *also]))

    def _take(self, ours: str, said: str, value: str) -> None:
        before = self._values.get(ours.lower())
        other = self._said.get(ours.lower(), ours)
        if before is not None and before != value and said.lower() != other.lower():
            raise WalflowError(f"options {other} and {said} are the same one: {before!r} or {value!r}?")
        self._values[ours.lower()] = value
        if said.lower() != ours.lower():
            self._said[ours.lower()] = said

    def said(self, name: str) -> str:
        return self._said.get(name.lower(), name)

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), self._defaults[name.lower()]).strip()

    def word(self, name: str, *words: str) -> str:
        text = self.text(name).lower()
        if text not in words:
            raise WalflowError(f"option {self.said(name)} is {self.text(name)!r}: it takes {' or '.join(words)}")
        return text

    def some_of(self, name: str, known: Sequence[str]) -> Sequence[str]:
        """In the order of `known`; all, where none is said."""
        asked = [one.strip() for one in self.text(name).split(",") if one.strip()]
        for one in asked:
            if one not in known:
                raise WalflowError(f"option {name} has {one!r}: it takes some of {', '.join(known)}")
        return [one for one in known if not asked or one in asked]

    def number(self, name: str, least: int, most: int = (1 << 63) - 1) -> int:
        return _number(self.said(name), self.text(name), least, most)

    def tasks(self, name: str) -> int | None:
        return None if self.text(name).lower() == AUTO else self.number(name, 1, MOST_TASKS)

    def seconds(self, name: str) -> float:
        text = self.text(name)
        found = _DURATION.fullmatch(text.lower())
        if found is None:
            raise WalflowError(f"option {self.said(name)} is {text!r}: it takes a duration such as 500ms, 30s or 15m")
        return int(found[1]) * _MILLISECONDS[found[2]] / 1000

    def size(self, name: str) -> int:
        text = self.text(name).lower()
        shift = _UNITS.get(text[-1:], 0)
        return _number(self.said(name), text[:-1] if shift else text, 1, (1 << 63) - 1 >> shift) << shift

    def position(self, name: str, words: Mapping[str, int | None]) -> int | None:
        text = self.text(name).lower()
        if text in words:
            return words[text]
        takes = f"{', '.join(words)} or a position, 1 or more"
        if text.startswith("{"):
            takes = f"no topics and partitions, for there are none here, but {takes}"
        return _number(self.said(name), text, 1, (1 << 63) - 1, takes)

    def moment(self, name: str, instead_of: str) -> int | None:
        """In nanoseconds."""
        text = self.text(name).strip()
        if not text:
            return None
        if instead_of.lower() in self._values:
            raise WalflowError(f"option {name} is there, and {self.said(instead_of)} too: leave one out")
        if text.isascii() and text.isdecimal():
            return int(text) * 1_000_000
        try:
            told = datetime.fromisoformat(text)
        except ValueError:
            raise WalflowError(
                f"option {name} takes milliseconds since 1970, or a time as 2026-11-28T06:00:00Z, not {text!r}"
            ) from None
        if told.tzinfo is None:
            raise WalflowError(f"option {name}: {text!r} has no time zone: write {text}Z for UTC")
        return round(told.replace(microsecond=0).timestamp()) * 1_000_000_000 + told.microsecond * 1000


def of_table(given: Mapping[str, str]) -> dict[str, str]:
    """What stands in OPTIONS of a table in Spark's catalog, if it is one: it comes twice, once behind `option.`,
    among properties of the table's."""
    return {name[len(COPY) :]: value for name, value in given.items() if name.lower().startswith(COPY)}


def _ours(given: Mapping[str, str]) -> dict[str, str]:
    """Of a table what is said for it, and what is said when it is read, where that is an option of ours."""
    table = of_table(given)
    if not table:
        return dict(given)
    known = {option.name.lower() for option in OPTIONS} | {name.lower() for name in SAME}
    return table | {name: value for name, value in given.items() if name.lower() in known}


def _number(name: str, text: str, least: int, most: int, takes: str = "") -> int:
    if text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    takes = takes or (f"a number from {least} to {most}" if most < 1 << 40 else f"a number, {least} or more")
    raise WalflowError(f"option {name} is {text!r}: it takes {takes}")


def _unknown(name: str, known: Collection[str]) -> str:
    if name.lower() == "token":
        return (
            "a token is never a plain option, those show in plans and logs: put it into a file, "
            "and its name into tokenFile"
        )
    if name.lower() == "path":
        return "load() takes no path: the log is where options host and port say"
    for kafkas, instead in HINTS.items():
        if name.lower() == kafkas.lower() or (kafkas.endswith(".") and name.lower().startswith(kafkas)):
            return f"there is no option {name}, as Kafka's source has: {instead}"
    lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), list(lower), 1)
    return f"there is no option {name}" + (f": do you mean {lower[near[0]]}?" if near else "")


def _read(path: str, said_by: str) -> str:
    try:
        with open(path, "rb") as file:
            token = file.read(MAX_TOKEN + 1)
    except OSError as error:
        raise WalflowError(f"the token file {path} ({said_by}) cannot be read: {error.strerror}") from None
    try:
        text = token.decode().strip()
    except UnicodeDecodeError:
        text = ""  # two files that differ would hold the same token
    if not text or len(token) > MAX_TOKEN or not text.isprintable():
        raise WalflowError(f"the token file {path} ({said_by}) holds no token")
    return text


def table() -> str:
    """For docs/reference/spark.md, which a test compares with it."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | {one.meaning} |" for one in OPTIONS]
    return "\n".join(lines) + "\n"
