"""`make unit ARGS=...` finds a part's tests by the part's name."""

from pathlib import Path

import pytest

from tests.unit import NoTests, tests_of as found_for


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "walflow/wal/reader.py", "walflow/wal/deep/walk.py", "walflow/receipt.py", "walflow/plain.py",
        "connectors/http/body.py",
        "tests/wal/test_reader.py", "tests/wal/test_reader_edges.py", "tests/wal/test_log.py",
        "tests/test_receipt.py",
        "tests/connectors/test_http.py", "tests/connectors/test_http_body.py", "tests/connectors/test_https.py",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("part", "tests"),
    [
        ("walflow/wal", ["tests/wal"]),
        ("walflow/wal/deep", ["tests/wal"]),
        ("walflow/wal/reader.py", ["tests/wal/test_reader.py", "tests/wal/test_reader_edges.py"]),
        ("walflow/receipt.py", ["tests/test_receipt.py"]),
        ("connectors/http", ["tests/connectors/test_http.py", "tests/connectors/test_http_body.py"]),
        ("tests/wal/test_log.py", ["tests/wal/test_log.py"]),
    ],
)
def test_a_part_is_mapped_to_its_own_tests(part: str, tests: list[str], tree: Path) -> None:
    assert [str(path) for path in found_for(part, tree)] == tests


@pytest.mark.parametrize("part", ["walflow/nothing", "walflow/plain.py"])
def test_a_part_without_tests_is_said_to_have_none(part: str, tree: Path) -> None:
    with pytest.raises(NoTests, match=part):
        found_for(part, tree)
