"""The language, case by case: each folder here is one, in the format of docs/reference/test-folders.md. `walflow test
tests/language` runs them too, and whatever else runs pipelines runs the very same."""

from pathlib import Path

import pytest

from tests.compile.test_differential import compare
from tests.examples import sampled, shared
from walflow.cases import find, judge
from walflow.cases.subject import read_subject

HERE = Path(__file__).parent
FOUND = find([HERE])
BY_NAME = {case.name: case for case in FOUND.cases}


@pytest.mark.parametrize("name", sampled([*BY_NAME]))
def test_case(name: str) -> None:
    assert not judge(BY_NAME[name]).problems


@pytest.mark.parametrize("name", shared([case.name for case in FOUND.cases if case.refused is None]))
def test_the_plain_interpreter_and_every_way_to_decode_say_the_same(name: str) -> None:
    case = BY_NAME[name]
    subject = read_subject(case).subject
    assert subject is not None
    payloads = [given.payload for given in case.given() if given.payload is not None]
    for plan in subject.assembly.pipelines:
        for region in plan.regions:
            if not plan.regions.compiled(region.entry).windowed:  # see tests/compile/test_windows.py
                compare(region, payloads)


def test_each_folder_is_a_case_or_a_group() -> None:
    assert FOUND.bad == {}
    assert len(FOUND.cases) >= 249
