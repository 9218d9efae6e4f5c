"""Run as a program: `bare.py BUNDLE REQUEST`: pyspark_walflow.trial's pipelines without Spark, in a Python that has neither
walflow nor the C extensions that it depends on. BUNDLE is the directory with the one file that executors get."""

import json
import sys
from importlib.machinery import ModuleSpec

BLOCKED = {"walflow", "connectors", "msgspec", "orjson", "re2", "line_protocol_parser", "hdrh", "pydantic", "lark"}


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
    from pyspark_walflow.trial import run_trial, table

    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    packed = {number: b64decode(text) for number, text in enumerate(asked["pipelines"])}
    for made in run_trial(packed, map(table, asked["batches"])):
        for row in made.to_pylist():
            sys.stdout.write(f"{json.dumps(list(row.values()))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
