"""What the directory of a log keeps of its receivers."""

from pathlib import Path

import pytest

from walflow.disk import RealDisk
from walflow.frontier import Frontier, KeptFrontiers, NotReadable, WriterKeys
from walflow.frontier.keys import FOLDER, MOST_TOKENS


def test_keys_come_back_and_are_named_as_their_sink(tmp_path: Path) -> None:
    kept = KeptFrontiers(RealDisk(), str(tmp_path))
    assert (kept.names(), kept.read("main::db")) == ([], WriterKeys())
    keys = WriterKeys().with_token().taken(Frontier(epoch=3, highest=8))
    kept.write("main::db", keys)
    kept.write("a/../b", keys)
    assert kept.read("main::db") == keys
    assert kept.names() == ["a/../b", "main::db"]
    assert sorted(path.parent for path in tmp_path.rglob("*.json")) == [tmp_path / FOLDER] * 2


def test_a_damaged_file_is_no_empty_one(tmp_path: Path) -> None:
    kept = KeptFrontiers(RealDisk(), str(tmp_path))
    kept.write("main::db", WriterKeys().with_token())
    [file] = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:-1])
    with pytest.raises(NotReadable):
        kept.read("main::db")


def test_the_tokens_of_runs_that_died_are_kept_until_one_is_confirmed() -> None:
    keys = WriterKeys()
    for _ in range(MOST_TOKENS + 3):
        keys = keys.with_token()
    assert len(set(keys.tokens)) == MOST_TOKENS
    assert keys.taken(Frontier(epoch=1)).tokens == (keys.newest,)
