"""`walflow test`: what it prints, writes and ends with."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from tests.cases.test_judge import PASS, made
from walflow.cli import app


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "cases" / "good", pipeline_trickle=PASS, in_jsonl="1\n2", out_jsonl="1\n2")


def walflow_test(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["test", *arguments])


def said(result: Result) -> list[str]:
    """Without the seconds."""
    return [line.rpartition(", ")[0] if line.endswith(" s") else line for line in result.output.splitlines()]


def add_failing() -> None:
    made(Path("cases") / "failing", pipeline_trickle=PASS, in_jsonl="1", out_jsonl="2", case_toml='tags = ["odd"]')


def test_all_as_expected() -> None:
    result = walflow_test("cases")
    assert result.exit_code == 0
    assert said(result) == ["1 passed; 2 events"]


def test_something_differs() -> None:
    add_failing()
    result = walflow_test("cases")
    assert result.exit_code == 1
    assert said(result) == ["FAIL failing", "  out, event 1:", "    - 2", "    + 1", "1 passed, 1 failed; 3 events"]


def test_a_case_that_cannot_be_run_stops_no_other() -> None:
    add_failing()
    made(Path("cases") / "broken", pipeline_trickle=PASS, in_jsonl="1\n{", out_jsonl="2")
    made(Path("cases") / "typo", pipelin_trickle=PASS, in_jsonl="1")
    result = walflow_test("cases")
    assert result.exit_code == 65
    assert said(result) == [
        "BAD  cases/typo: `in.jsonl` without a file `pipeline.trickle`, `script.tremor` or `flow.troy`",
        "BAD  broken",
        "  cases/broken/in.jsonl:2:2: expecting property name enclosed in double quotes",
        "FAIL failing",
        "  out, event 1:",
        "    - 2",
        "    + 1",
        "1 passed, 1 failed, 2 cannot be run; 3 events",
    ]


def test_one_case_by_its_own_folder() -> None:
    assert said(walflow_test("cases/good")) == ["1 passed; 2 events"]


def test_chosen_by_name_and_tag() -> None:
    add_failing()
    assert walflow_test("cases", "-k", "goo").exit_code == 0
    assert walflow_test("cases", "-k", "goo", "-k", "fail").exit_code == 1
    assert said(walflow_test("cases", "--tag", "odd"))[0] == "FAIL failing"
    assert walflow_test("cases", "-k", "goo", "--tag", "odd").exit_code == 66


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none"], "none: no such folder"),
        (["cases/good/in.jsonl"], "cases/good/in.jsonl: this is no folder"),
        (["."  , "-k", "nowhere"], "walflow: no case has that name, or that tag"),
        (["empty"], "walflow: no case in empty: a case is a folder with a subject"),
    ],
)  # fmt: skip
def test_no_case(arguments: list[str], words: str) -> None:
    Path("empty").mkdir()
    result = walflow_test(*arguments)
    assert result.exit_code == 66
    assert words in result.output


def test_update_then_all_is_as_expected() -> None:
    add_failing()
    result = walflow_test("cases", "--update")
    assert result.exit_code == 0
    assert said(result) == ["written: cases/failing/out.jsonl", "1 file written"]
    assert walflow_test("cases").exit_code == 0
    assert said(walflow_test("cases", "--update")) == ["nothing to write: all is as expected"]


def test_a_file_that_cannot_be_written_is_a_line() -> None:
    add_failing()
    Path("cases/failing/out.jsonl").unlink()
    Path("cases/failing/out.jsonl").mkdir()
    result = walflow_test("cases", "--update")
    assert (result.exit_code, said(result)[0]) == (65, "BAD  cases/failing/out.jsonl: Is a directory")


def test_junit() -> None:
    add_failing()
    assert walflow_test("cases", "--junit", "results.xml").exit_code == 1
    suite = ElementTree.parse("results.xml").getroot()
    assert {case.get("name"): [part.tag for part in case] for case in suite} == {"failing": ["failure"], "good": []}
    result = walflow_test("cases", "--junit", "no/where.xml")
    assert result.exit_code == 73
    assert "--junit no/where.xml: No such file or directory" in result.output


def test_what_is_printed_commands_no_terminal() -> None:
    made(Path("cases") / "evil", pipeline_trickle=PASS, in_jsonl='"\x9b31m"', out_jsonl="1")
    assert "\x9b" not in walflow_test("cases").output
