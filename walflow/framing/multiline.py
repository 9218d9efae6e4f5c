"""Events of several lines, as a stack trace: the preprocessor `multiline`.

A line alone says whether an event begins with it (`start`), goes on with it (`continue`) or ends with it (`end`). So
the same bytes are the same events, wherever the reads cut them. The bytes stay as they are; the last newline does not
belong to the event. Each read is looked through once, by RE2: what was looked at before is not looked at again.

An event that reaches a limit is divided between two lines. Nothing is lost, and nothing is rejected for its lines.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol, Self

from walflow.errors import WalflowError
from walflow.framing.processor import Processor
from walflow.framing.steps import Step
from walflow.plugins import known_keys

MAX_LINES: Final = 500
MAX_BYTES: Final = 1 << 20
TIMEOUT: Final = 1_000_000_000  # nanoseconds
MOST_MEMORY: Final = 2 << 20  # of a compiled pattern

# A line that one of these matches goes on with the event before it. None of them takes a newline.
RULES: Final[Mapping[str, str]] = {
    "java": r"[ \t]|Caused by: |Suppressed: "
    r"|(?:[A-Za-z_$][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable)(?:[: \r]|$)",
    "python": r"[ \t]|\r?$|Traceback \(most recent call last\):"
    r"|(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Group)(?:: |\r?$)"
    r"|During handling of the above exception|The above exception was the direct cause",
    "go": r"[ \t]|\r?$|goroutine \d+ \[|created by |\[signal |exit status \d"
    r"|(?:[\w.%~-]+/)*[\w%-]+\.[\w.*()\[\]{}-]+\(.*\)\r?$",
}
INDENTED: Final = r"[ \t]"
WAYS: Final = ("start", "continue", "end", "indent", "rule")

Begins = Callable[[bytes], Sequence[int]]


class Pending(bytearray):
    """The bytes of a stream whose event has not ended. `lines`: those of whole lines, which were looked at. `ends`:
    where the events end that `cut` gave last. `limit`: the most bytes of an event of several lines."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.lines = 0
        self.ends: Sequence[int] = ()

    def clear(self) -> None:
        super().clear()
        self.lines = 0


class Multiline:
    """`begins`: of whole lines, the offsets at which an event begins; their length, where the last line ends one."""

    name = "multiline"
    countable = False
    max_length: int | None = None

    def __init__(
        self, begins: Begins, max_lines: int, max_bytes: int, timeout: float, config: Mapping[str, object]
    ) -> None:
        self._begins = begins
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self.timeout = timeout
        self.config = config

    def __repr__(self) -> str:
        return f"<Multiline {dict(self.config)}>"

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        known_keys("multiline", config, (*WAYS, "max_lines", "max_bytes", "timeout"))
        given = [way for way in WAYS if way in config]
        if len(given) != 1:
            raise WalflowError('multiline wants one of start, continue, end, indent, rule: {"rule": "java"}')
        (way,) = given
        return cls(
            _begins(way, config[way]),
            _number(config, "max_lines", MAX_LINES),
            _number(config, "max_bytes", MAX_BYTES),
            _number(config, "timeout", TIMEOUT) / 1e9,
            dict(config),
        )

    def pending(self, limit: int) -> Pending:
        """For a new stream. `limit`: the connector's, of an event."""
        return Pending(min(limit, self._max_bytes))

    def cut(self, tail: bytearray, data: bytes) -> bytes:
        """As of every framing. `tail` has the ends of the events."""
        assert isinstance(tail, Pending)
        tail.ends = ()
        before = tail.lines
        tail += data
        whole = before if b"\n" not in data else tail.rfind(b"\n") + 1
        found = [before + at for at in self._begins(bytes(memoryview(tail)[before:whole]))] if whole > before else []
        tail.lines = whole
        ends = self._limited(tail, [at for at in found if at], whole)
        return self._give(tail, ends)

    def finish(self, tail: bytearray) -> bytes:
        assert isinstance(tail, Pending)
        if len(tail) == tail.lines:
            return self.end_event(tail)
        whole = self.cut(tail, b"\n")
        ends = tail.ends
        rest = self.end_event(tail)
        tail.ends = [*ends, *([len(whole) + len(rest)] if rest else [])]
        return whole + rest

    def end_event(self, tail: Pending) -> bytes:
        """The whole lines that are there, as an event. What follows is a new one."""
        return self._give(tail, [tail.lines] if tail.lines else [])

    def skip(self, data: bytes) -> bytes | None:
        """Only a line that is too long is skipped."""
        end = data.find(b"\n") + 1
        return data[end:] if end else None

    def payloads(self, data: bytes) -> list[bytes]:
        return divided(data, self.index(data))

    def index(self, data: bytes) -> Sequence[int]:
        tail = self.pending(MAX_BYTES)
        given = len(self.cut(tail, data))
        ends = [*tail.ends]
        return [*ends, given + len(tail)] if tail else ends

    def frames(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in pairwise((0, *self.index(data)))]

    def count(self, data: bytes) -> int:
        return len(self.index(data))

    def join(self, payloads: Iterable[bytes]) -> bytes:
        """Only to divide them again. Events go on as lines, or with their lengths."""
        return b"".join([payload + b"\n" for payload in payloads])

    def _give(self, tail: Pending, ends: Sequence[int]) -> bytes:
        tail.ends = ends
        if not ends:
            return b""
        whole = bytes(memoryview(tail)[: ends[-1]])
        lines = tail.lines - ends[-1]
        del tail[: ends[-1]]
        tail.lines = lines
        return whole

    def _limited(self, tail: Pending, ends: list[int], whole: int) -> list[int]:
        """The ends, and those that the limits add. What is behind the last one may go on."""
        least = min(self._max_lines, tail.limit)  # a line has a byte at least
        found: list[int] = []
        begin = 0
        for end in ends:
            if end - begin > least:
                found += self._divide(tail, begin, end)
                if found[-1:] == [end]:
                    found.pop()
            found.append(end)
            begin = end
        if whole - begin >= self._max_lines or whole - begin > tail.limit:
            found += self._divide(tail, begin, whole)
        last = found[-1] if found else 0
        if whole > last and len(tail) - last > tail.limit:  # the line that goes on is too long for this event
            found.append(whole)
        return found

    def _divide(self, tail: Pending, begin: int, end: int) -> list[int]:
        ends: list[int] = []
        lines = 0
        at = begin
        for size in map(len, BytesIO(memoryview(tail)[begin:end]).readlines()):
            if lines and at + size - 1 - begin > tail.limit:
                ends.append(at)
                begin, lines = at, 0
            at += size
            lines += 1
            if lines == self._max_lines:
                ends.append(at)
                begin, lines = at, 0
        return ends


def divided(data: bytes, ends: Sequence[int]) -> list[bytes]:
    """The events without their last newlines."""
    return [data[begin : end - 1] for begin, end in pairwise((0, *ends))]


class _Match(Protocol):
    """RE2's. Where lines are matched one by one, they are most of the work: about two microseconds each."""

    def start(self) -> int: ...
    def span(self) -> tuple[int, int]: ...


def _begins(way: str, value: object) -> Begins:
    if way == "indent":
        if value is not True:
            raise WalflowError("multiline wants indent = true: an indented line goes on with the event before it")
        return _continued_in_runs(INDENTED)
    if not isinstance(value, str) or not value:
        raise WalflowError(f"multiline wants a pattern for {way}, not {value!r}")
    if way == "rule":
        if value not in RULES:
            raise WalflowError(f"multiline has no rule {value!r}; there are {', '.join(RULES)}")
        return _continued_in_runs(RULES[value])
    return {"start": _started, "continue": _continued, "end": _ended}[way](value)


def _in_line(pattern: str) -> str:
    """The pattern, so that it may match anywhere in a line."""
    anchored = pattern.startswith("^") and "|" not in pattern
    return f"(?m)^(?:{pattern})" if anchored else f"(?m)^.*?(?:{pattern})"


def _started(pattern: str) -> Begins:
    find = _finder(_in_line(pattern), pattern)
    return lambda lines: [match.start() for match in find(lines)]


def _ended(pattern: str) -> Begins:
    find = _finder(_in_line(pattern), pattern)
    return lambda lines: [lines.find(b"\n", match.start()) + 1 for match in find(lines)]


def _continued(pattern: str) -> Begins:
    find = _finder(_in_line(pattern), pattern)

    def begins(lines: bytes) -> Sequence[int]:
        going_on = {match.start() for match in find(lines)}
        return [at for at in _line_starts(lines) if at not in going_on]

    return begins


def _continued_in_runs(pattern: str) -> Begins:
    """Of a pattern that takes no newline: many lines are one match."""
    find = _finder(f"(?m)(?:^(?:{pattern}).*\n)+", pattern, lines=True)

    def begins(lines: bytes) -> Sequence[int]:
        starts = _line_starts(lines)
        found: list[int] = []
        behind = 0
        for begin, end in (match.span() for match in find(lines)):
            first, last = bisect_right(starts, begin - 1), bisect_right(starts, end - 1)
            found += starts[behind:first]
            behind = last
        return found + starts[behind:]

    return begins


def _line_starts(lines: bytes) -> list[int]:
    starts = [0, *accumulate(map(len, BytesIO(lines).readlines()))]
    starts.pop()
    return starts


def _finder(whole: str, pattern: str, *, lines: bool = False) -> Callable[[bytes], Iterator[_Match]]:
    """`lines`: it takes newlines."""
    import re2  # pyright: ignore[reportMissingTypeStubs]

    library: Any = re2
    options = library.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.never_nl = not lines
    try:
        library.compile(pattern, options)  # otherwise `)|(` would be one
        regex = library.compile(whole.encode(), options)
    except library.error as refused:
        reason = refused.args[0] if refused.args else refused
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise WalflowError(f"multiline: `{pattern}` is no pattern of RE2: {text}") from refused
    find: Callable[[bytes], Iterator[_Match]] = regex.finditer
    return find


def _number(config: Mapping[str, object], key: str, default: int) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WalflowError(f"multiline wants a {key} of at least 1, not {value!r}")
    return value


def _step(config: Mapping[str, object]) -> Step:
    raise WalflowError("`multiline` gives events, so it stands last")


PROCESSOR: Final = Processor(
    description="Several lines are one event, as a stack trace.",
    config="one of `start`, `continue`, `end` (patterns), `indent` (true), `rule` (`java`, `python`, `go`); "
    "`max_lines` (500), `max_bytes` (1048576), `timeout` (nanoseconds, 1 s)",
    step=_step,
    cutting=Multiline.from_config,
    cuts=True,
)
