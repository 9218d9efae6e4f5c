"""Numbered lines of mixed sizes. Each can be made again from its numbers, so a copy is checked byte for byte."""

import random
import re
from typing import Final, NamedTuple

WORDS: Final = (
    "amber",
    "brook",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "jetty",
    "krill",
    "larch",
)

_numbers = re.compile(rb'\{"client":(\d{1,6}),"id":(\d{1,12}),"connection":(\d{1,6}),').match


class Number(NamedTuple):
    """Which line this is. `connection` counts the client's connections: a line sent again has another one, so the
    same number twice in a file was not the client's doing."""

    client: int
    id: int
    connection: int


class Lines:
    """The same seed makes the same lines."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self._text = " ".join(rng.choices(WORDS, k=20_000))
        self._sizes = [_size(rng) for _ in range(4093)]

    def make(self, client: int, id: int, connection: int) -> bytes:
        """Mostly short, now and then long; with an integer that does not fit 64 bits."""
        size = self.size(client, id)
        start = (id * 61 + client) % 4096
        text = self._text[start : start + size]
        return (
            f'{{"client":{client},"id":{id},"connection":{connection},"big":{id + 1}00000000000000000001,'
            f'"text":"{text}"}}\n'
        ).encode()

    def size(self, client: int, id: int) -> int:
        """Of the text in the line."""
        return self._sizes[(id * 31 + client) % 4093]

    def number(self, line: bytes) -> Number | None:
        """None: not one of these lines, or no longer."""
        match = _numbers(line)
        if match is None:
            return None
        client, id, connection = map(int, match.groups())
        return Number(client, id, connection) if line == self.make(client, id, connection) else None


def _size(rng: random.Random) -> int:
    match rng.random():
        case part if part < 0.90:
            return rng.randrange(10, 200)
        case part if part < 0.99:
            return rng.randrange(200, 2_000)
        case _:
            return rng.randrange(2_000, 20_000)
