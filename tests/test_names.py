"""One name, one thing: a reader who has met a class knows what its name stands for everywhere."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("walflow", "walflow_kernel", "connectors", "pyspark_walflow")
# Each half has a base of its errors, because Spark's half may not import walflow's. Users catch both by this name.
TWICE = {"WalflowError"}


def test_no_public_class_name_stands_for_two_things() -> None:
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in re.findall(r"(?m)^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8")):
                places[name].append(path)
    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in TWICE}
    found = {
        name: [str(path.relative_to(ROOT)) for path in where if name in classes(path)]
        for name, where in twice.items()
    }
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def classes(path: Path) -> set[str]:
    """And not what stands in a text."""
    return {node.name for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)}
