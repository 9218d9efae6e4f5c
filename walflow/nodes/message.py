"""The events of one whole message, for a source that takes all of them or none."""

from collections.abc import Iterator
from itertools import chain

from walflow.contract import MessagePiece
from walflow.event import Cutting
from walflow.framing import Incoming, Multiline, Worked, decoders, each, last_pieces, pieces
from walflow.framing.steps import Piece


def cut(message: bytes, incoming: Incoming, limit: int) -> Iterator[MessagePiece]:
    """`limit`: the most bytes of an event."""
    steps = decoders(incoming.steps, limit, messages=True, cut=incoming.cut)
    items = each(chain(pieces(steps, message), last_pieces(steps, complete=True)))
    return map(_as_piece, _cut(items, incoming.framing, limit) if incoming.cut else items)


def _as_piece(item: Piece) -> MessagePiece:
    if isinstance(item, bytes):
        return MessagePiece(len(item), event=item)
    return MessagePiece(item.size) if isinstance(item, Worked) else MessagePiece(0, item.piece, item.reason)


def _cut(items: Iterator[Piece], framing: Cutting, limit: int) -> Iterator[Piece]:
    tail = framing.pending(limit) if isinstance(framing, Multiline) else bytearray()
    for item in items:
        if isinstance(item, bytes):
            yield from framing.payloads(framing.cut(tail, item))
        else:
            yield item
    yield from framing.payloads(framing.finish(tail))
