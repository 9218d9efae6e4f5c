"""A function without its module, or by the name that another language gives it: the hint is the call to write."""

from pathlib import Path

import pytest

from tests.lang.world import REGISTRY
from walflow.plan import load

FLOW = """use std::string;
define flow main
flow
  define pipeline p pipeline select {call} from in into out; end;
  create pipeline p;
end;
deploy flow main;
"""


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("count()", "unknown function `count`", "write `aggr::stats::count()`"),
        ("aggr::count()", "unknown function `count` in module `aggr`", "write `aggr::stats::count()`"),
        ("uppercase(event.a)", "unknown function `uppercase`", "write `string::uppercase(text)`"),
        ("downcase(event.a)", "unknown function `downcase`", "write `string::lowercase(text)`"),
        ("ingest_ns()", "unknown function `ingest_ns`", "write `system::ingest_ns()` with `use tremor::system;`"),
        ("now()", "unknown function `now`", "write `system::ingest_ns()` with `use tremor::system;`"),
        ("system::ingest_ns()", "unknown module `system`", "add `use tremor::system;`"),
        ("string::upper(event.a)", "unknown function `upper` in module `string`", "did you mean `uppercase`?"),
        (
            "len(event.a)",
            "unknown function `len`",
            (
                "write `string::len(text)` or `array::len(array)` with `use std::array;` or `binary::len(binary)` "
                "with `use std::binary;` or `record::len(record)` with `use std::record;`"
            ),
        ),
        ("frobnicate()", "unknown function `frobnicate`", None),
    ],
)
def test_a_function_that_is_elsewhere(call: str, message: str, hint: str | None) -> None:
    Path("main.troy").write_text(FLOW.replace("{call}", call))
    (found,) = [one for one in load([Path("main.troy")], REGISTRY)[1] if one.severity == "error"]
    assert (found.message, found.hint) == (message, hint)


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (
            "define window 10s from tumbling with size = 1 end;",
            "expected a name, found `10`",
            "a name begins with a letter, or stands in backticks: `` `10s` ``",
        ),
        (
            "define window w from tumbling with interval = 1.5s end;",
            "expected `,`, `end` or `state`, found `s`",
            "a time is a number of nanoseconds: 1500000000, or `nanos::from_seconds(…)` with `use std::time::nanos;`",
        ),
        (
            'define connector log from wal with config = {"chunk_size": 16MB} end;',
            "expected `,` or `}`, found `MB`",
            'a size is a number of bytes, or a string: `"16MiB"`',
        ),
        (
            'define pipeline p #!config engine = "spark"\npipeline select event from in into out; end;',
            "`#!config` does not stand here",
            "it stands at the head of a pipeline, right behind the word `pipeline`",
        ),
    ],
)
def test_what_is_written_elsewhere_and_not_here(body: str, message: str, hint: str) -> None:
    Path("main.troy").write_text(
        f"define pipeline outer\npipeline\n{body}\nend;"
        if "window" in body
        else f"define flow main\nflow\n{body}\nend;"
    )
    found = load([Path("main.troy")], REGISTRY)[1]
    assert [(one.message, one.hint) for one in found] == [(message, hint)]
