"""104 mistakes of new users, with the very text that `check` prints. Those in `unseen` were written from the docs, before their
author had read the parser; those in `seen` after. Those in `later` are habits of Vector, Logstash, SQL and Python, tried on what
the first 60 had made. Those in `open` have no `end`, or a `;` too many, within each construct that `end` closes.

`python -m tests.lang.test_mistakes` writes the texts anew; read the difference before you keep it.
"""

import os
import re
from pathlib import Path

import pytest

from tests.examples import sampled
from walflow.diagnostics import render_all
from walflow.plan import load

MISTAKES = Path(__file__).parent / "mistakes"
NAMES = sorted(str(path.relative_to(MISTAKES).with_suffix("")) for path in MISTAKES.rglob("*.troy"))


def said(name: str) -> str:
    path = MISTAKES / f"{name}.troy"
    os.chdir(path.parent)  # the fixture leads back
    return render_all(load([path.name])[1]) + "\n"


@pytest.mark.parametrize("name", sampled(NAMES))
def test_a_mistake_is_told_so_and_nothing_follows_from_it(name: str) -> None:
    text = said(name)
    assert text == (MISTAKES / f"{name}.out").read_text(encoding="utf-8")
    blocks = re.split(r"(?m)^(?=\S+:\d+:\d+: )", text)
    assert [block for block in blocks if ": expected" in block and "      = " not in block] == []
    assert len(re.findall(r"(?m): error: ", text)) == (2 if name == "unseen/keys_without_quotes" else 1)


def test_there_are_so_many_and_half_of_the_first_are_of_one_who_had_not_seen_the_parser() -> None:
    assert len(NAMES) == 104
    assert sum(name.startswith("seen/") for name in NAMES) == 30
    assert sum(name.startswith("unseen/") for name in NAMES) == 30


if __name__ == "__main__":
    for one in NAMES:
        (MISTAKES / f"{one}.out").write_text(said(one), encoding="utf-8")
