"""Run as a program: `bare.py BUNDLE REQUEST`: pyspark_walflow.trial's pipelines without Spark, in a Python that has
neither walflow nor the C extensions that it depends on.
BUNDLE is the directory with the one file that executors get."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

BLOCKED = {
    "walflow",
    "connectors",
    "msgspec",
    "orjson",
    "re2",
    "line_protocol_parser",
    "hdrh",
    "ddsketch",
    "pydantic",
    "lark",
}


class Blocked:
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)
        return None


def main(bundle: str, request: str) -> None:
    sys.meta_path.insert(0, Blocked())
    sys.path.insert(0, bundle)
    from base64 import b64decode

    import pyspark_walflow

    assert pyspark_walflow.__file__ == f"{bundle}/pyspark_walflow.py"
    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    packed = {number: b64decode(text) for number, text in enumerate(asked["pipelines"])}
    for row in rows_of(packed, asked["batches"]):
        sys.stdout.write(f"{json.dumps(row)}\n")


def rows_of(packed: Mapping[int, bytes], batches: Sequence[Any]) -> Iterator[list[Any]]:
    """What `pyspark_walflow.trial.run_request` gives. Each of `batches` is a micro-batch; between two of them each
    bucket's state is bytes."""
    from pyspark_walflow.keeper import BucketStep, Keeper
    from pyspark_walflow.stage import unpacked
    from pyspark_walflow.trial import BUCKETS, deal_trial, run_trial, table

    keepers = {number: Keeper(one) for number, one in enumerate(map(unpacked, packed.values())) if one.keeping}
    others = {number: one for number, one in packed.items() if number not in keepers}
    for made in run_trial(others, map(table, batches)):
        yield from (list(row.values()) for row in made.to_pylist())
    states: dict[int, bytes] = {}
    for batch in batches:
        dealt: dict[int, list[bytes]] = {}
        for one in deal_trial(packed, keepers.keys(), [table(batch)]):
            for row in one.to_pylist():
                dealt.setdefault(row["bucket"], []).append(row["packed"])
        for bucket, blobs in dealt.items():
            number = bucket // BUCKETS
            step = BucketStep(keepers[number], states.get(bucket))
            for made in step.run(blobs):
                yield from ([number, *row.values()] for row in made.to_pylist())
            states[bucket] = step.packed


if __name__ == "__main__":
    main(*sys.argv[1:])
