"""Where the time of a block goes within the process: `python -m bench.profile`.

The blocks are those of `bench.evaluation`. Each step is measured alone, and the least of many rounds counts. One is
the time in which the source validates the block: a flow that only passes events on does nothing else with their
bytes.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bench.evaluation import EVENTS, SELECTS, lines, seconds, select
from walflow.codecs import JSON
from walflow.compile.compiled import BlockCall
from walflow.event import Frames
from walflow.framing import LINES
from walflow_kernel import json
from walflow_kernel.moment import Moment

ROUNDS: Final = 300
SHOWN: Final = (
    "where, one member",
    "a new record of two members",
    "patch insert",
    "script: let, match of three",
    "script: let event.seen",
)


class Steps(NamedTuple):
    """Seconds of one block. `rest`: receipts, and blocks around what leaves."""

    validate: float
    decode: float
    evaluate: float
    check: float  # whether JSON can hold what was made
    write: float
    rest: float


def steps(text: str, frames: Frames, rounds: int = ROUNDS) -> Steps:
    """Of one select or script of `bench.evaluation`."""
    node = select(text)
    compiled = node.compiled
    call = BlockCall(Moment(1), range(EVENTS), {}, None, lambda number: None)
    decoded = compiled.reader.decode(frames, JSON)
    made = [rows.values for rows in compiled.run(decoded, call).rows.values() if rows.values is not None]
    validate = least(lambda: JSON.validate(frames.data, LINES), rounds)
    decode = least(lambda: compiled.reader.decode(frames, JSON), rounds)
    evaluate = least(lambda: compiled.run(decoded, call), rounds)
    check = least(lambda: [json.all_hold(values) for values in made], rounds) if made else 0.0
    write = least(lambda: [json.lines(values) for values in made], rounds) if made else 0.0
    whole = min(seconds(node, frames) for _ in range(rounds))
    return Steps(validate, decode, evaluate, check, write, max(whole - decode - evaluate - check - write, 0.0))


def least(work: Callable[[], object], rounds: int) -> float:
    found: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()  # what it has made is freed within its time
        found.append(time.perf_counter() - began)
    return min(found)


def table(rows: Mapping[str, Steps]) -> str:
    heads = [*Steps._fields, "sum"]
    shown = [
        f"{'÷ validate':<30}" + "".join(f"{head:>10}" for head in heads),
        f"{'pass':<30}{1:>10.2f}" + " " * 60 + f"{1:>10.2f}",
    ]
    for name, found in rows.items():
        parts = [one / found.validate for one in (*found, sum(found))]
        shown.append(f"{name:<30}" + "".join(f"{part:>10.2f}" for part in parts))
    return "\n".join(shown)


def main() -> None:
    frames = lines(misfits=False)
    print(table({name: steps(SELECTS[name], frames) for name in SHOWN}))


if __name__ == "__main__":
    main()
