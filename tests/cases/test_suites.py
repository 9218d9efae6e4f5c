"""Suites of tests in a script: what is found, what passes, and what is said of what does not."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from walflow.cases import BadCase, find_suites, judge
from walflow.cli import app

SUITE = """\
use std::test;
use std::string;
fn twice(n) with n * 2 end;
const four = 4;
let base = 10;

test::suite({
  "name": "numbers",
  "tags": ["quick"],
  "tests": [
    test::test({"name": "twice", "test": test::assert("twice two", four, twice(2))}),
    test::test({"name": "wrong", "test": test::assert("twice three", four, twice(3))}),
    test::test({"name": "base", "tags": ["odd"], "test": base == 10}),
    test::test({"name": "ten", "test": base}),
    test::test({"test": event.nope == 1})
  ]
});
test::suite({"name": "strings", "tests": [
  test::test({"name": "len", "test": test::assert("len", 3, string::len("abc"))})
]})
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib").mkdir()
    Path("lib/math.tremor").write_text(SUITE)


def walflow_test(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["test", ".", *arguments])


def test_each_test_is_judged_alone() -> None:
    found = {test.name: judge(test).problems for test in find_suites([Path()]).tests}
    assert found == {
        "lib/math.tremor/numbers/twice": [],
        "lib/math.tremor/numbers/wrong": [
            "lib/math.tremor:12:42: error: `test::assert`: twice three: expected 4, got 6",
            '   12 |     test::test({"name": "wrong", "test": test::assert("twice three", four, twice(3))}),',
            "      |                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ],
        "lib/math.tremor/numbers/base": [],
        "lib/math.tremor/numbers/ten": [
            "lib/math.tremor:14:40: error: a test is true, this is 10",
            '   14 |     test::test({"name": "ten", "test": base}),',
            "      |                                        ^^^^",
        ],
        "lib/math.tremor/numbers/5": [
            "lib/math.tremor:15:25: error: `event.nope`: a record without `nope`",
            '   15 |     test::test({"test": event.nope == 1})',
            "      |                         ^^^^^^^^^^^^^^^",
        ],
        "lib/math.tremor/strings/len": [],
    }


def test_walflow_test_runs_them_beside_folders() -> None:
    case = Path("case")
    case.mkdir()
    (case / "script.tremor").write_text("event")
    (case / "in.jsonl").write_text("1\n")
    (case / "out.jsonl").write_text("1\n")
    result = walflow_test()
    assert result.exit_code == 1
    assert "FAIL lib/math.tremor/numbers/wrong\n" in result.output
    assert "4 passed, 3 failed; 1 events" in result.output


def test_they_are_chosen_by_tag_and_by_name() -> None:
    assert walflow_test("--tag", "odd").output.startswith("1 passed; ")
    assert walflow_test("--tag", "quick").output.splitlines()[-1].startswith("2 passed, 3 failed; ")
    assert walflow_test("--name", "strings").output.startswith("1 passed; ")
    assert walflow_test("--name", "nothing").exit_code == 66


def test_a_script_without_a_suite_is_none() -> None:
    Path("lib/math.tremor").write_text("event.a")
    assert walflow_test().exit_code == 66


BAD = [
    ("test::suite(1)", "2:1: error: this takes a record"),
    ("test::suite({})", "2:1: error: this needs `tests`"),
    ('test::suite({"tests": 1})', "2:23: error: `tests` is an array"),
    ('test::suite({"tests": [1]})', "2:24: error: `tests` of a suite are calls of `test::test`"),
    ('test::suite({"tests": [test::test({})]})', "2:24: error: this needs `test`"),
    ('test::suite({"name": 1, "tests": [test::test({"test": true})]})', "2:22: error: `name` is a string"),
    ('test::suite({"tags": ["a", 1], "tests": [test::test({"test": true})]})',
     "2:22: error: `tags` is an array of strings"),
    ('test::suite({"tests": []}); event',
     "2:29: error: beside `let`, a file of suites has calls of `test::suite` alone"),
    ("test::suite({", "2:13: error: this `{` is never closed"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_file_that_cannot_be_run_stops_no_other(text: str, said: str) -> None:
    Path("lib/bad.tremor").write_text(f"use std::test;\n{text}\n")
    found = find_suites([Path()])
    assert len(found.tests) == 6
    [bad] = found.bad.values()
    assert isinstance(bad, BadCase)
    assert str(bad).startswith(f"lib/bad.tremor:{said}")
    result = walflow_test("--name", "len")
    assert result.exit_code == 0
    assert walflow_test().exit_code == 65
