"""The language, case by case: each folder here is one, in the format of docs/reference/test-folders.md. `walflow test
tests/language` runs them too, and whatever else runs pipelines runs the very same."""

from pathlib import Path

import pytest

from walflow.cases import Case, find, judge

HERE = Path(__file__).parent
FOUND = find([HERE])


@pytest.mark.parametrize("case", FOUND.cases, ids=[case.name for case in FOUND.cases])
def test_case(case: Case) -> None:
    assert not judge(case).problems


def test_each_folder_is_a_case_or_a_group() -> None:
    assert FOUND.bad == {}
