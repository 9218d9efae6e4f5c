"""What looking at an event costs within the process: `python -m bench.evaluation`.

A select takes blocks of 2,600 JSON lines of 100 bytes, without sockets, codecs or a log around it: once without a
misfit, once with one in a hundred (an array among records). Both in turns; the least of many rounds counts, as other
work on the machine only adds.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from walflow.codecs import JSON
from walflow.compile.compiler import compile_region
from walflow.diagnostics import render_all
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.metrics import CountedValue
from walflow.operators.select import Select
from walflow.plan import load
from walflow.receipt import Receipt


def script(text: str, head: str = "") -> str:
    """A pipeline of one script."""
    return (
        f"fn twice(x) with x * 2 end; define script s {head} script {text} end; create script s; "
        "select event from in into s; select event from s into out;"
    )


def windows(*told: str) -> str:
    """Settings of windows, then aggregates; without these count and sum."""
    settings = [one for one in told if "=" in one]
    names = [one for one in told if "=" not in one] or ["count", "sum"]
    defined = "".join(f"define window w{at} from tumbling with {one} end; " for at, one in enumerate(settings))
    made = ", ".join(f'"{one}": aggr::stats::{one}({"" if one == "count" else "event.seq"})' for one in names)
    chain = ", ".join(f"w{at}" for at in range(len(settings)))
    return f'{defined} select {{"level": group[0], {made}}} from in[{chain}] group by event.level into out;'


EXTRACT: Final = "select match %s => found default => null end from in into out;"
THREE: Final = (
    'let n = event.seq % 100; match event.level of case "debug" => drop '
    'case "info" when n > 50 => event case %{present code} => drop default => event end'
)
EVENTS: Final = 2600
ROUNDS: Final = 300
stamps = [1_700_000_000_000_000_000]
SELECTS: Final[Mapping[str, str]] = {
    "where, one member": 'select event from in where event.level == "info" into out;',
    "where, two members": "select event from in where event.seq > 5 and event.ok into out;",
    "a new record of two members": 'select {"seq": event.seq, "level": event.level} from in into out;',
    "patch insert": 'select patch event of insert "seen" => true end from in into out;',
    "script: let, match of three": script(THREE),
    "script: the same with a counter": script(f"let state = state + 1; {THREE}", "state 0"),
    "script: match of records": script(
        'match event of case %{level == "debug"} => drop case %{seq < 5, present ok} => drop case %{ok == '
        "true} => event default => drop end"
    ),
    "script: let event.seen": script("let event.seen = true; event"),
    "script: for of five members": script("for event of case (k, v) => v end"),
    "script: a function": script("twice(event.seq)"),
    "group by": 'select {"level": group[0], "seq": event.seq} from in group by event.level into out;',
    "window of 1,000 by group: count, sum": windows("size = 1000"),
    "... five aggregates": windows("size = 1000", "mean", "stdev", "min", "max", "count"),
    "... hdr": windows("size = 1000", "hdr"),
    "... by interval": windows("interval = 1_000_000_000"),
    "... in a chain of four": windows(*(f"interval = {10**9 * 4**at}" for at in range(4))),
    "extractor: re, two groups": EXTRACT % "event.level of case found = ~ re|^(?P<first>[a-z])(?P<rest>[a-z]*)$|",
    "extractor: re, no match": EXTRACT % "event.level of case found = ~ re|^(?P<first>[A-Z])|",
    "extractor: grok, two fields": EXTRACT
    % "event.level of case found = ~ grok|^%{LOGLEVEL:level}%{GREEDYDATA:rest}$|",
    "extractor: json": EXTRACT % '"[#{event.seq}]" of case found = ~ json||',
    "extractor: dissect, two fields": EXTRACT % "event.level of case found = ~ dissect|%{a}n%{b}|",
}
FLOW: Final = "define flow main flow define pipeline p pipeline %s end; create pipeline p; end; deploy flow main;"


class Taker:
    """Acks what comes, and counts nothing."""

    def accept(self, block: Block) -> None:
        block.receipt.ack()

    def take(self, block: Block, reasons: object, details: object = None) -> None:
        block.receipt.ack()


def lines(misfits: bool) -> Frames:
    """`misfits`: every hundredth event is an array."""
    made = []
    for number in range(EVENTS):
        event = {
            "seq": 100_000 + number,
            "level": "info",
            "ok": True,
            "at": 1_700_000_000_000_000_000 + number,
            "m": "",
        }
        event["m"] = "x" * (99 - len(JSON.encode(event)))
        made.append(b"[" + b"1," * 48 + b"1]" if misfits and number % 100 == 50 else JSON.encode(event))
    return Frames(LINES.join(made), EVENTS, LINES)


def select(text: str) -> Select:
    with TemporaryDirectory() as folder:
        flow = Path(folder) / "main.troy"
        flow.write_text(FLOW % text)
        assembly, said = load([flow])
    if assembly is None:
        raise SystemExit(render_all(said))
    (plan,) = assembly.pipelines
    (region,) = plan.regions
    compiled = compile_region(region)
    exits = {exit: Taker() for exit in compiled.exits}
    return Select(compiled, exits, Taker(), CountedValue(), state=compiled.new_state())


def many_groups(count: int) -> list[Frames]:
    """Blocks of events of so many groups, each event of another one than the last."""
    made = [
        JSON.encode({"seq": number, "level": f"h{number * 7919 % count:06}", "m": "x" * 60})
        for number in range(max(count, EVENTS))
    ]
    return [Frames(LINES.join(some), len(some), LINES) for some in batched(made, EVENTS)]


def batched(made: list[bytes], most: int) -> list[list[bytes]]:
    return [made[at : at + most] for at in range(0, len(made), most)]


def seconds(node: Select, frames: Frames) -> float:
    stamps[0] += 1_000_000
    receipt = Receipt(lambda _: None, frames.count)
    block = Block(StreamId("bench", 1, 1), frames, JSON, receipt, ingest_ns=stamps[0], meta={})
    began = time.perf_counter()
    node.accept(block)
    return time.perf_counter() - began


def main() -> None:
    plain, misfits = lines(False), lines(True)
    report = {}
    print(f"{'select':<36} {'us/event':>9} {'1 % misfits':>12}")
    for name, text in SELECTS.items():
        node = select(text)
        pairs = [(seconds(node, plain), seconds(node, misfits)) for _ in range(ROUNDS)]
        least, least_misfits = (min(column) * 1e6 / EVENTS for column in zip(*pairs, strict=True))
        report[name] = (least, least_misfits)
        print(f"{name:<36} {least:>9.3f} {least_misfits:>12.3f}")
    for groups in (3, 100_000):
        node, blocks = select(windows("size = 1000")), many_groups(groups)
        rounds = [[seconds(node, frames) for frames in blocks] for _ in range(30)]
        least = sum(map(min, zip(*rounds, strict=True))) * 1e6 / sum(frames.count for frames in blocks)
        report[f"{groups} groups"] = (least, least)
        print(f"{f'window of 1,000, {groups:,} groups':<36} {least:>9.3f}")
    if "--json" in sys.argv:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
