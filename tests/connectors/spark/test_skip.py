"""`walflow wal skip` on a log that Spark reads: past an event that ends every job that sees it."""

from pathlib import Path

from pyspark_walflow.client import Client, LostPositions, integer
from pyspark_walflow.local_files import FilePart
from pyspark_walflow.wire import FrameKind
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given
from tests.system.daemon import WALFLOW
from tests.system.warm import ran
from tests.wal.tools import BadDisk
from walflow.wal import Log, LogOptions
from walflow.wal.format import chunk_name


def test_what_an_operator_skipped_is_read_as_a_hole(tmp_path: Path) -> None:
    poison = b"\xff is no text"
    before, after = numbered(3), numbered(3, 3)
    given = [Given([event.encode() for event in before]), Given([poison]), Given([event.encode() for event in after])]
    lake = Lake(tmp_path, given, '"retain": "1h"')
    ran([*WALFLOW, "wal", "skip", str(lake.state), "4"], check=True, capture_output=True)
    with lake, lake.client() as client:
        found = everything(client, 8)
        lake.commit(8, "spark", "other")
        assert everything(client, 8) == found, "also once all is committed, and kept"
        assert not any(isinstance(one, FilePart) for one in client.read(1, 8, "spark", files=True))
        assert [type(one) for one in client.read(5, 8, "spark", files=True)] == [FilePart]
    assert [one for one in found if isinstance(one, LostPositions)] == [
        LostPositions(4, 4, "an operator skipped them", empty=True)
    ]
    records = b"".join(one[1] for one in found if not isinstance(one, LostPositions))
    assert poison not in records
    assert all(event.encode() in records for event in before + after)


def test_what_may_have_stood_where_the_disk_cannot_read_is_passed_in_one_step(tmp_path: Path) -> None:
    """The log goes on far above, and nobody was given the positions between."""
    before, after = numbered(3), numbered(2, 3)
    lake = Lake(tmp_path, [Given([event.encode() for event in before])])
    last = lake.state / chunk_name(4)
    last.write_bytes(b"?" * 1000)
    Log(LogOptions(str(lake.state), gives_up=True), BadDisk(str(last), 0)).close()
    with lake:
        new = lake.head()["next"]
        lake.send(*after)
        with lake.client() as client:
            assert integer(client.call(FrameKind.PLAN, {"start": 4, "rows": 10, "bytes": 1000}), "end") == new
            found = everything(client, new + 2)
    empty = "a crash left nothing there, and nothing there was acked"
    assert [one for one in found if isinstance(one, LostPositions)] == [LostPositions(4, new - 1, empty, empty=True)]
    records = b"".join(one[1] for one in found if not isinstance(one, LostPositions))
    assert all(event.encode() in records for event in before + after)


def everything(client: Client, end: int) -> list[tuple[int, bytes] | LostPositions]:
    """The bytes that it gives are valid until the next ones are asked for."""
    found: list[tuple[int, bytes] | LostPositions] = []
    for one in client.read(1, end, "spark"):
        assert not isinstance(one, FilePart)
        found.append(one if isinstance(one, LostPositions) else (one[0], bytes(one[1])))
    return found
