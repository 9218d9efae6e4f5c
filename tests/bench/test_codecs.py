"""What `python -m bench.codecs` measures are events that each codec reads and writes."""

import pytest

from bench.codecs import CASES, Measured, main


@pytest.mark.parametrize("title", CASES)
def test_each_example_is_an_event(title: str) -> None:
    one = Measured(*CASES[title])
    assert isinstance(one.value, dict | list | str)
    assert one.value
    assert one.codec.decode(one.codec.encode(one.value)) == one.value


@pytest.mark.test
def test_it_prints_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    main(1)
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(CASES)
