"""One name, one thing: a reader who has met a class knows what its name stands for everywhere,
and a file has a noun."""

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


# Nouns in -ing: what each holds has this name in the field, or in the language.
NOUNS = {
    "walflow/codecs/string.py": "the codec",
    "walflow/compile/folding.py": "constant folding, a compiler's step",
    "walflow/compile/listing.py": "a program's listing",
    "walflow/compile/lowering.py": "a compiler's step",
    "walflow/framing/gelf_chunking.py": "the preprocessor",
    "walflow/lang/nesting.py": "how deep blocks lie in each other",
    "walflow/nodes/wiring.py": "what connects nodes beyond their links",
    "walflow_kernel/std/string.py": "the module of the language",
    "connectors/spark/results/staging.py": "a staging area",
}


def test_a_file_has_the_name_of_what_it_holds_and_not_of_what_it_does() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    doing = {
        str(path.relative_to(ROOT)) for path in files if any(word.endswith("ing") for word in path.stem.split("_"))
    }
    # the sender's room is being rebuilt
    assert {name for name in doing if not name.startswith("walflow/delivery/")} == NOUNS.keys()
