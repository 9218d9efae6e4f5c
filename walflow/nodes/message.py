"""The events of one whole message, for a source that takes all of them or none."""

from collections.abc import Iterator
from itertools import chain

from walflow.contract import MessagePiece
from walflow.event import Cutting
from walflow.framing import Incoming, Multiline, decoders, last_pieces, pieces
from walflow.framing.steps import Item, Worked


def cut(message: bytes, incoming: Incoming, limit: int) -> Iterator[MessagePiece]:
    """`limit`: the most bytes of an event."""
    steps = decoders(incoming.steps, limit, messages=True, cut=incoming.cut)
    items = chain(pieces(steps, message), last_pieces(steps, complete=True))
    return map(_as_piece, _cut(items, incoming.framing, limit) if incoming.cut else items)


def _as_piece(item: Item) -> MessagePiece:
    if isinstance(item, bytes):
        return MessagePiece(len(item), event=item)
    return MessagePiece(item.size) if isinstance(item, Worked) else MessagePiece(0, item.piece, item.reason)


def _cut(items: Iterator[Item], framing: Cutting, limit: int) -> Iterator[Item]:
    tail = framing.pending(limit) if isinstance(framing, Multiline) else bytearray()
    for item in items:
        if isinstance(item, bytes):
            yield from framing.payloads(framing.cut(tail, item))
        else:
            yield item
    yield from framing.payloads(framing.finish(tail))
