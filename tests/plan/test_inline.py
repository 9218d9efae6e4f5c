"""Pipelines within pipelines do what the same selects do, written into one pipeline with streams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.examples import shared
from tests.lang.world import assembled
from walflow.cases.folder import Case
from walflow.cases.host import run
from walflow.cases.subject import read_subject

WHAT = ["event", "event", "event", "event + 1", "[event]", '{"a": event}', "event.a", "event[0]", "1 / event"]
WHERE = ["", "", "", "where event != 2", "where event > 1", 'where type::is_array(event) or event == {"a": 1}']


@dataclass
class Drawn:
    """The same twice: statements with pipelines within, and without."""

    nested: list[str]
    flat: list[str]


def draw(chance: Random, depth: int, prefix: str) -> Drawn:
    """Of one pipeline with an `in` and an `out`, which are streams of that name in the flat one."""
    found = Drawn([], [])
    ways = [("in", f"{prefix}in")]  # where events come from here: its name nested, and flat
    for number in range(chance.randint(1, 3)):
        if depth and chance.random() < 0.6:
            name = f"p{number}"
            inner = draw(chance, depth - 1, f"{prefix}{name}_")
            body = "\n".join(inner.nested)
            found.nested += [f"define pipeline {name} pipeline\n{body}\nend;", f"create pipeline {name};"]
            found.flat += [f"create stream {prefix}{name}_{port};" for port in ("in", "out")] + inner.flat
            begin, end = (name, f"{prefix}{name}_in"), (name, f"{prefix}{name}_out")
        else:
            begin = end = (f"s{number}", f"{prefix}s{number}")
            found.nested.append(f"create stream {begin[0]};")
            found.flat.append(f"create stream {begin[1]};")
        for source in chance.sample(ways, chance.randint(1, len(ways))):
            select(chance, found, source, begin)
        ways.append(end)
    for source in ways[1:]:
        if chance.random() < 0.7:
            select(chance, found, source, ("out", f"{prefix}out"))
    return found


def select(chance: Random, found: Drawn, source: tuple[str, str], target: tuple[str, str]) -> None:
    what, where = chance.choice(WHAT), chance.choice(WHERE)
    for at, statements in enumerate((found.nested, found.flat)):
        statements.append(f"select {what} from {source[at]} {where} into {target[at]};")


def outcome(folder: Path, statements: Sequence[str]) -> Mapping[str, Sequence[object]]:
    folder.mkdir()
    (folder / "pipeline.trickle").write_text("use std::type;\n" + "\n".join(statements))
    (folder / "in.jsonl").write_text('1\n{"a":1}\n[2]\n0\n2\n[[3]]\n')
    case = Case(folder, folder.name)
    read = read_subject(case)
    assert read.subject is not None, read.errors
    ran = run(case, read.subject, case.given())
    assert ran.troubles == []
    found: dict[str, Sequence[object]] = {"out": [came.line for came in ran.came.get("out", ())]}
    rejected = [came.members["value"] for came in ran.came.get("err", ())]
    found["err"] = [(one["error"], one["event"]) for one in rejected if isinstance(one, dict)]
    return found


@pytest.mark.parametrize("seed", shared(range(60)))
def test_what_they_do_is_what_the_flat_pipeline_does(seed: int, tmp_path: Path) -> None:
    drawn = draw(Random(seed), 3, "")
    assert outcome(tmp_path / "nested", drawn.nested) == outcome(tmp_path / "flat", drawn.flat)


FLOW = """
define flow main
flow
  define pipeline p
  pipeline
    define pipeline q
    pipeline
      define operator batch from generic::batch with count = 2 end;
      define operator log from qos::wal with read_count = 20, dir = "store", max_elements = 10 end;
      create operator batch;
      create operator log;
      select event from in where event > 1 into batch;
      select event from batch into log;
      select event + 1 from log into out;
    end;
    create pipeline q;
    select event * 2 from in into q;
    select event - 1 from q into out;
  end;
  create pipeline p;
end;
deploy flow main;
"""


def test_a_compiled_region_goes_on_through_them_and_ends_at_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assembly = assembled(FLOW)
    [plan] = assembly.pipelines
    found = {region.entry: (list(region.places), region.exits) for region in plan.regions}
    assert found == {
        "in": (["in", "q"], ["q/batch"]),
        "q/log/out": (["q/log/out", "q/out"], ["out"]),
    }
    [log] = [one for one in assembly.connectors if one.kind == "wal"]
    assert str(log.id) == "main::p/q/log"
    assert [operator.name for operator in plan.operators] == ["q/batch"]
