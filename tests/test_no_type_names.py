"""The core knows connectors by their traits and roles, never by the name of a type. Only a sentence may
recommend one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from walflow.registry import connectors

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = sorted(file for room in ("walflow", "walflow_kernel") for file in (ROOT / room).rglob("*.py"))
TABLES: Final = {
    "walflow/substitutes.py": "names of tremor and Vector, and what walflow has instead",
    "walflow/lang/legacy": "names of tremor 0.11, and what walflow has instead",
    "walflow/cli/new": "templates by name; files that a user gets",
}
WORDS: Final = {
    "console": {"walflow/cli/logs.py": "a format of walflow's own log"},
    "file": {
        "walflow/admin/token.py": "a key of a Secret",
        "walflow/cli/admin_client.py": "a key of a Secret",
        "walflow/cli/findings.py": "a key of a finding in JSON",
        "walflow/cli/test.py": "a word of English",
        "walflow/cli/wal/stats.py": "a key of a gap in JSON",
        "walflow/lang/grammar.py": "a rule of the grammar",
        "walflow/lang/lalr.py": "a rule of the grammar",
        "walflow/lang/parser.py": "a rule of the grammar",
    },
    "kv": {"walflow_kernel/extractors/__init__.py": "an extractor"},
    "memory": {"walflow/cli/doctor.py": "what a machine has"},
    "null": {
        "walflow/cli/connectors.py": "null, of JSON",
        "walflow/cli/promises.py": "the codec",
        "walflow/codecs/avro.py": "null, of Avro",
        "walflow/codecs/null.py": "the codec",
        "walflow/codecs/yaml.py": "null, of YAML",
        "walflow/compile/expressions.py": "null, of the language",
        "walflow/compile/growth.py": "null, of the language",
        "walflow/lang/legacy/yaml.py": "null, of YAML",
        "walflow/plan/validate.py": "null, of the language",
        "walflow/repl/completion.py": "null, of the language",
        "walflow/repl/session.py": "null, of the language",
        "walflow_kernel/functions.py": "null, of the language",
        "walflow_kernel/json_plain.py": "null, of JSON",
        "walflow_kernel/std/type.py": "null, of the language",
        "walflow_kernel/values.py": "null, of the language",
    },
    "spark": {"walflow/cli/doctor.py": "an extra"},
    "tcp_server": {"walflow/cli/commands.py": "an example on the page of commands"},
}


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def test_no_string_of_the_core_is_the_name_of_a_type() -> None:
    types = set(connectors())
    mentions = re.compile("|".join(map(re.escape, types)))
    found: list[str] = []
    for file in SOURCES:
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        if not path.startswith(tuple(TABLES)) and mentions.search(text):
            found += [
                f"{path}:{one.lineno}: {one.value}"
                for one in strings(ast.parse(text))
                if one.value in types and path not in WORDS.get(str(one.value), {})
            ]
    assert found == []


def test_each_word_that_is_let_through_is_still_there() -> None:
    gone = [
        (word, path)
        for word, paths in WORDS.items()
        for path in paths
        if word not in {one.value for one in strings(ast.parse((ROOT / path).read_text(encoding="utf-8")))}
    ]
    assert gone == []
