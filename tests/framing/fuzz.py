"""Damaged input for each codec, preprocessor and algorithm:
`python -m tests.framing.fuzz [INPUTS]` prints what became of it."""

import sys
import time
from collections.abc import Callable, Iterator

from tests.codecs import test_fuzz as codecs
from tests.framing import test_fuzz as framing, test_snappy_brotli as compression
from walflow.codecs import registered

Looking = Callable[[str, int], tuple[int, int]]


def cases() -> Iterator[tuple[str, str, Looking]]:
    yield from (("codec", name, codecs.look) for name in sorted(registered().of("walflow")))
    yield from (("preprocessor", name, framing.look) for name in sorted(framing.CHAINS))
    yield from (("decompress", name, compression.look) for name in ("br", "snappy"))


def main(inputs: int = 100_000) -> None:
    print("| what | name | damaged inputs | events | refused | µs each |")  # noqa: T201
    print("|---|---|--:|--:|--:|--:|")  # noqa: T201
    for what, name, look in cases():
        began = time.process_time()
        events, refused = look(name, inputs)
        each = (time.process_time() - began) / inputs * 1e6
        print(f"| {what} | `{name}` | {inputs:,} | {events:,} | {refused:,} | {each:.0f} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
