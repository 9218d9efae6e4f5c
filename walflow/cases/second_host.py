"""Cases on Spark: all that Spark can host, as one query in one session, the input cut into micro-batches at random.

What is compared is what the daemon's nodes are compared with. The Spark half is `pyspark_walflow.trial`, a process of
its own: the daemon's side never imports pyspark.
"""

import base64
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walflow.cases.folder import BadCase, Case, Given
from walflow.cases.host import LOG, Came, Ran
from walflow.cases.judge import Judgement, judged_by
from walflow.cases.subject import Subject, read_subject
from walflow.cases.values import value_of
from walflow.codecs import JSON
from walflow.errors import WalflowError
from walflow.plan.pipelines import plan_pipeline
from walflow.plan.second_host import hash_of, ship_pipeline
from walflow.registry import connectors
from walflow_kernel.shipped import ShippedPipeline

MODULE: Final = "pyspark_walflow.trial"
MOST_BATCHES: Final = 6  # micro-batches; each takes some 0.3 s

Row = Sequence[object]


class NoSpark(WalflowError):
    """Spark could not run the cases. The text is one line."""


@dataclass
class HostedCase:
    case: Case
    given: Sequence[Given]
    shipped: ShippedPipeline


class SparkTrial:
    """`hosted`: the cases that Spark can host. `judged`: the others, of which nothing runs."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.hosted: list[HostedCase] = []
        self.judged: list[Judgement] = []
        for case in cases:
            try:
                found = _look(case)
            except BadCase as bad:
                found = Judgement(case, [str(bad)], bad=True)
            if isinstance(found, Judgement):
                self.judged.append(found)
            else:
                self.hosted.append(found)

    def request(self, seed: int) -> dict[str, object]:
        """What `pyspark_walflow.trial` reads. The same `seed` cuts the input in the same way."""
        return {
            "pipelines": [base64.b64encode(one.shipped.packed()).decode() for one in self.hosted],
            "batches": _cut(self.hosted, random.Random(seed)),
        }

    def judgements(self, rows: Sequence[Row]) -> Iterator[Judgement]:
        """`rows`: what it has answered."""
        came = _came(self.hosted, rows)
        for number, one in enumerate(self.hosted):
            events = sum(given.payload is not None for given in one.given)
            yield Judgement(one.case, list(judged_by(one.case, Ran(came.get(number, {}), ()))), events=events)


def judge_on_spark(cases: Sequence[Case], seed: int, python: str = sys.executable) -> Iterator[Judgement]:
    """Raises NoSpark."""
    trial = SparkTrial(cases)
    yield from trial.judged
    if not trial.hosted:
        return
    for judgement in trial.judgements(_ask(trial.request(seed), python)):
        said = [f"on Spark, micro-batches of --seed {seed}:"] if judgement.problems else []
        yield judgement._replace(problems=[*said, *judgement.problems])


def _look(case: Case) -> "HostedCase | Judgement":
    read = read_subject(case)
    if read.subject is None or case.refused is not None:
        return Judgement(case, list(judged_by(case, None)))
    found = ship_case(case, read.subject)
    return Judgement(case, [], left_out=found) if isinstance(found, str) else HostedCase(case, case.given(), found)


def ship_case(case: Case, subject: Subject) -> str | ShippedPipeline:
    """What runs on Spark, or why Spark cannot run it."""
    if case.subject == "flow.troy":
        return "it is a flow: Spark runs pipelines, one at a time"
    if any(given.stream for given in case.given()):
        return "its events come by several streams, and a row of Spark's has none"
    assert subject.pipeline is not None
    refused: list[str] = []
    plan = plan_pipeline(subject.pipeline, connectors(), lambda diagnostic: None)
    if any(operator.run_as is not None for operator in plan.operators):
        return "there is a log in its midst: what stands before and behind it are two pipelines"
    shipped = ship_pipeline(plan, lambda diagnostic: refused.append(diagnostic.message))
    return refused[0] if shipped is None else shipped._replace(salt=hash_of(LOG))


def _ask(request: Mapping[str, object], python: str) -> Sequence[Row]:
    with tempfile.TemporaryDirectory(prefix="walflow-test-") as folder:
        asked, answer = Path(folder, "request.json"), Path(folder, "result.jsonl")
        asked.write_text(json.dumps(request), encoding="utf-8")
        try:
            done = subprocess.run(
                [python, "-m", MODULE, str(asked), str(answer)], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise NoSpark(f"{python} cannot be run: {error.strerror}") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"{MODULE} ended with exit code {done.returncode}"]
            raise NoSpark(lines[-1])
        return [json.loads(line) for line in answer.read_text(encoding="utf-8").splitlines()]


def _cut(hosted: Sequence[HostedCase], chance: random.Random) -> list[list[Row]]:
    """Each case in its order, cut anywhere: into one batch, into many, with a backlog at the end."""
    batches: list[list[Row]] = [[] for _ in range(MOST_BATCHES)]
    for number, one in enumerate(hosted):
        # where only time passes, a pipeline with state gets a row without a value
        some = [given for given in one.given if given.payload is not None or one.shipped.keeping is not None]
        cuts = sorted(chance.choices(range(MOST_BATCHES), k=len(some)))
        position = 0
        for given, at in zip(some, cuts, strict=True):
            position += given.payload is not None
            meta = JSON.encode(dict(given.meta)).decode() if given.meta else None
            value = None if given.payload is None else given.payload.decode()
            batches[at].append([number, given.port, position, given.ingest_ns, meta, value])
    return [batch for batch in batches if batch]


def _came(hosted: Sequence[HostedCase], rows: Sequence[Row]) -> Mapping[int, Mapping[str, Sequence[Came]]]:
    found: dict[int, dict[str, list[Came]]] = {}
    for number, port, _, _, ingest_ns, meta, value, error in sorted(rows, key=_order):
        one = hosted[int(str(number))]
        members = {
            "value": value_of(str(value).encode()),
            "meta": value_of(str(meta or "{}").encode()),
            "ingest_ns": value_of(str(ingest_ns).encode()),
            "stream": value_of(b"0"),
        }
        inner = members["value"]
        if error is not None and isinstance(inner, dict) and isinstance(inner.get("at"), str):
            inner["at"] = str(inner["at"]).removeprefix(f"{one.case.folder}/")
        came = Came(str(value), members, error is not None)
        found.setdefault(int(str(number)), {}).setdefault(str(port), []).append(came)
    return found


def _order(row: Row) -> tuple[int, int, int, bool, int]:
    """What time has caused stands before the events of its time: it has an earlier position."""
    number, _, position, nth, ingest_ns, *_, error = row
    return int(str(number)), int(str(ingest_ns)), int(str(position or 0)), error is not None, int(str(nth))
