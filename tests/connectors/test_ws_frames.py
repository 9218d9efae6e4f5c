"""What `connectors.ws.frames` reads and writes is what websockets' own protocol does."""

import struct
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, strategies as st
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import Protocol, Side

from connectors.ws.frames import frame_size, frames_of, take_messages
from connectors.ws.wire import SILENT, FrameRead, FrameWire

LIMIT = 70_000
LIMITS = st.sampled_from([127, LIMIT])


class ByTheLibrary(FrameWire):
    """No frame is read or written but by websockets."""

    @property
    def _plain(self) -> bool:
        return False


def wire(kind: type[FrameWire], side: Side, limit: int | None = LIMIT) -> FrameWire:
    return kind(Protocol(side, max_size=limit, logger=SILENT))


SIZES = st.sampled_from([0, 1, 2, 99, 125, 126, 127, 128, 300, 65_535, 65_536, LIMIT, LIMIT + 1])


def repeated(size: int, byte: int) -> bytes:
    return bytes([byte]) * size


DATA = st.builds(repeated, SIZES, st.integers(0, 255)) | st.binary(max_size=40)
WHOLE = st.builds(Frame, st.sampled_from([Opcode.TEXT, Opcode.BINARY]), DATA)
PART = st.builds(Frame, st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT]), DATA, st.booleans())
CONTROL = st.builds(Frame, st.sampled_from([Opcode.PING, Opcode.PONG]), st.binary(max_size=125))
GOODBYE = st.just(Frame(Opcode.CLOSE, Close(1000, "enough").serialize()))
NONSENSE = st.binary(min_size=2, max_size=20)
FEW = st.sampled_from([True] + [False] * 15)


@st.composite
def streams(draw: st.DrawFn, *, masked: bool) -> bytes:
    """Mostly whole messages, now and then something else."""
    pieces: list[bytes] = []
    for _ in range(draw(st.integers(0, 12))):
        if draw(FEW):
            pieces.append(draw(NONSENSE))
            continue
        frame = draw(WHOLE | WHOLE | PART | CONTROL | GOODBYE)
        pieces.append(frame.serialize(mask=not masked if draw(FEW) else masked))
    return b"".join(pieces)


def cut(data: bytes, chance: Random) -> Sequence[bytes]:
    pieces: list[bytes] = []
    while data:
        size = chance.choice((1, 2, 3, 7, 200, 5_000, 100_000))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def heard(one: FrameWire, pieces: Sequence[bytes]) -> tuple[object, ...]:
    all_read, sent = FrameRead(), b""
    for piece in pieces:
        rest = piece
        while rest:
            read, rest = one.receive_turn(rest)
            all_read.frames += read.frames
            all_read.messages += read.messages
            all_read.pongs += read.pongs
        data, ends = one.to_send()
        sent += data + (b"|" if ends else b"")
    one.eof()
    data, ends = one.to_send()
    said = one.ending(), one.too_large, one.open, ends
    return all_read.messages, all_read.pongs, all_read.frames, said, sent + data


@given(streams(masked=True), LIMITS, st.integers(0, 1 << 30))
def test_a_server_hears_what_the_library_hears(data: bytes, limit: int, seed: int) -> None:
    pieces = cut(data, Random(seed))
    mine, theirs = (heard(wire(kind, Side.SERVER, limit), pieces) for kind in (FrameWire, ByTheLibrary))
    assert mine == theirs


@given(streams(masked=False), LIMITS, st.integers(0, 1 << 30))
def test_a_client_hears_what_the_library_hears(data: bytes, limit: int, seed: int) -> None:
    pieces = cut(data, Random(seed))
    mine, theirs = (heard(wire(kind, Side.CLIENT, limit), pieces) for kind in (FrameWire, ByTheLibrary))
    assert mine[:-1] == theirs[:-1]
    assert len(mine[-1]) == len(theirs[-1])  # type: ignore[arg-type]  # the same frames, with masks of their own


@given(st.lists(DATA, max_size=6), st.booleans())
def test_a_server_writes_what_the_library_writes(messages: list[bytes], text: bool) -> None:
    mine, theirs = (wire(kind, Side.SERVER, None) for kind in (FrameWire, ByTheLibrary))
    for one in (mine, theirs):
        one.ping(b"before")
        one.encode(messages, text=text)
        one.ping(b"behind")
        one.close("")
    assert mine.to_send() == theirs.to_send()
    assert mine.to_send() == (b"", False)


@given(st.lists(DATA, max_size=6), st.booleans())
def test_what_a_client_writes_a_server_reads(messages: list[bytes], text: bool) -> None:
    one = wire(FrameWire, Side.CLIENT, None)
    one.encode(messages, text=text)
    data, _ = one.to_send()
    assert wire(ByTheLibrary, Side.SERVER, None).receive(data).messages == messages


def test_masks_differ() -> None:
    one = wire(FrameWire, Side.CLIENT)
    one.encode([bytes(8)] * 4, text=False)
    data, _ = one.to_send()
    assert len({data[at + 2 : at + 6] for at in range(0, len(data), 14)}) == 4


@pytest.mark.parametrize("kind", [Opcode.TEXT, Opcode.BINARY])
def test_all_that_came_whole_is_taken_at_once(kind: Opcode) -> None:
    frames = [Frame(kind, b"x" * n).serialize(mask=True) for n in (0, 1, 125, 126, 65_535)]
    data = b"".join(frames)
    got: list[bytes] = []
    assert take_messages(data + frames[0][:3], 0, got, masked=True, limit=LIMIT) == len(data)
    assert [len(message) for message in got] == [0, 1, 125, 126, 65_535]


def test_the_size_of_a_frame_is_known_from_its_head() -> None:
    for size in (0, 125, 126, 65_535, 65_536):
        for mask in (False, True):
            frame = Frame(Opcode.BINARY, bytes(size)).serialize(mask=mask)
            head = len(frame) - size - (4 if mask else 0)
            assert frame_size(b"x" + frame, 1) == len(frame)
            assert frame_size(frame[:head], 0) == len(frame)
            assert frame_size(frame[: head - 1], 0) is None
    assert frame_size(struct.pack("!BBQ", 0x82, 127, 1 << 62), 0) == (1 << 62) + 10


def test_no_message_is_no_bytes() -> None:
    assert frames_of([], text=True, keys=None) == b""
