"""What is sent and what must come back: one megabyte of different lines, over and over."""

import json
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
from websockets.frames import Frame, Opcode

CYCLE: Final = 1 << 20  # bytes of different lines before they begin again
REDIS_STREAM: Final = b"s"
MISFIT_AMONG: Final = 100


@dataclass(frozen=True)
class Load:
    """`rate`: lines a second on each connection; 0: as fast as they come back. `lines_per_write`: 0 for writes as
    large as the socket takes. `window`: bytes underway, all connections. `mute`: connections beside them that send
    what they can and never read. `speaks`: "redis" for an XADD a line, answered by its id; "ws" for a message a line;
    "msgpack" for the same values, each behind its length.
    `added`: what the system under test inserts before the end of each object. `stamped`: five members, one of them a
    timestamp in nanoseconds; `wide`: six more; `picked`: `seq` and `level` of these come back. `misfits`: every
    hundredth line is an array, and does not come back."""

    size: int = 100  # bytes an event, its newline included
    connections: int = 1
    rate: float = 0.0
    lines_per_write: int = 0
    window: int = 8 << 20
    mute: int = 0
    speaks: Literal["lines", "redis", "ws", "msgpack"] = "lines"
    added: str = ""
    stamped: bool = False
    wide: bool = False
    picked: bool = False
    misfits: bool = False


@dataclass(frozen=True)
class Cycle:
    """A run of it may begin anywhere and be as long as all of it."""

    data: bytes
    size: int  # of one event, or of so many
    events: int = 1
    twice: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.data * 2)


def outgoing(load: Load) -> Cycle:
    lines = _lines(load)
    if load.speaks == "redis":
        commands = [_xadd(line[:-1]) for line in lines.splitlines(keepends=True)]
        return Cycle(b"".join(commands), len(commands[0]))
    if load.speaks == "ws":
        return _messages(lines, mask=True)
    if load.speaks == "msgpack":
        return _packed(lines)
    if load.misfits:
        return _grouped(lines, misfit=b"[" + b"1," * ((load.size - 4) // 2) + b"1]\n")
    return Cycle(lines, load.size)


def returning(load: Load) -> Cycle:
    added = load.added.encode()
    data = _lines(load)
    if load.picked:
        picked = [{name: json.loads(line)[name] for name in ("seq", "level")} for line in data.splitlines()]
        lines = [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in picked]
        return Cycle(b"".join(lines), len(lines[0]))
    if load.misfits:
        return _grouped(data, misfit=b"")
    if load.speaks == "ws":
        return _messages(data, mask=False)
    if load.speaks == "msgpack":
        return _packed(data)
    return Cycle(data.replace(b"}\n", added + b"}\n") if added else data, load.size + len(added))


def _lines(load: Load) -> bytes:
    return stamped_lines(load.size, wide=load.wide) if load.stamped else made_lines(load.size)


def made_lines(size: int) -> bytes:
    lines: list[bytes] = []
    for number in range(CYCLE // size):
        head = f'{{"id":{number + 10_000_000},"host":"edge-{number % 97:02}","level":"info","text":"'
        filler = ("the quick brown fox jumps over the lazy dog " * (size // 44 + 1))[: size - len(head) - 3]
        lines.append(f'{head}{filler}"}}\n'.encode())
        assert len(lines[-1]) == size, "too short for these fields"
    return b"".join(lines)


def stamped_lines(size: int, *, wide: bool = False) -> bytes:
    lines: list[bytes] = []
    more = '"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,' if wide else ""
    for number in range(CYCLE // size):
        head = f'{{"seq":1{number:09},"ts":1790000000{number:09},"level":"info","ok":true,{more}"pad":"'
        lines.append(f'{head}{"x" * (size - len(head) - 3)}"}}\n'.encode())
        assert len(lines[-1]) == size, "too short for these fields"
    return b"".join(lines)


def _grouped(lines: bytes, misfit: bytes) -> Cycle:
    """Groups of MISFIT_AMONG events: what does not come back is counted with what does."""
    good = lines.splitlines(keepends=True)
    most = len(good) - len(good) % MISFIT_AMONG
    groups = [b"".join([*good[at : at + MISFIT_AMONG - 1], misfit]) for at in range(0, most, MISFIT_AMONG)]
    return Cycle(b"".join(groups), len(groups[0]), MISFIT_AMONG)


def _messages(lines: bytes, *, mask: bool) -> Cycle:
    """As a client sends them, masked, or a server."""
    frames = [Frame(Opcode.TEXT, line).serialize(mask=mask) for line in lines.splitlines()]
    return Cycle(b"".join(frames), len(frames[0]))


def _packed(lines: bytes) -> Cycle:
    """Behind eight bytes of length, as the preprocessor `length-prefixed` takes them."""
    payloads = [msgspec.msgpack.encode(json.loads(line)) for line in lines.splitlines()]
    frames = [len(payload).to_bytes(8) + payload for payload in payloads]
    return Cycle(b"".join(frames), len(frames[0]))


def _xadd(line: bytes) -> bytes:
    words = (b"XADD", REDIS_STREAM, b"*", b"l", line)
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
