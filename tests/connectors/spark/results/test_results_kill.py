"""A real daemon is killed while Spark publishes: each row of each batch is in the file once, and in its order."""

import random
import secrets
import threading
import time
from pathlib import Path

import pytest

from pyspark_walflow.client import Client
from pyspark_walflow.wire import Code, RequestRefused
from tests.connectors.spark.results.results_world import rows_of
from tests.pyspark_walflow.bay import Bay, publish, stage
from tests.waiting import PATIENCE

SMALL = '"chunk_size": 65536, "max_chunks": 4'


def test_killed_in_the_middle_of_a_publication_it_goes_on_at_the_next_start(tmp_path: Path) -> None:
    """The middle is certain: there is no file to write to, so the log fills up, and PUBLISH waits for space."""
    bay = Bay(tmp_path, SMALL)
    first, second = rows_of("1", 150, 1000), rows_of("2", 150, 1000)
    one, two = "1" * 32, "2" * 32
    with bay:
        with bay.client() as client:
            stage(client, one, first)
            assert publish(client, "q", 0, one) == (True, 150)
        with bay.client() as client:
            stage(client, two, second)
            waiting = threading.Thread(target=_publish_in_vain, args=(client, two))
            waiting.start()
            said = bay.daemon.wait_for("results wait")
            assert "their log is full" in str(said["reason"])
            bay.kill()
            waiting.join(PATIENCE)
            assert not waiting.is_alive()
        bay.open_file()
        bay.start()
        resumed = bay.daemon.last("publication resumed")
        assert resumed["rows"] == 150
        assert 0 < int(str(resumed["done"])) < 150
        with bay.client() as client:
            assert publish(client, "q", 1, two) == (False, 150)
        assert bay.lines(300) == [row.decode() for row in first + second]
        assert bay.staged() == []


def _publish_in_vain(client: Client, name: str) -> None:
    with pytest.raises(OSError, match=r"closed|reset"):
        publish(client, "q", 1, name)


class Publisher(threading.Thread):
    """A driver that publishes batch after batch, each until it hears that it is; a stage the daemon does not know is
    written anew."""

    def __init__(self, bay: Bay, batches: int) -> None:
        super().__init__()
        self.bay = bay
        self.batches = batches
        self.done = 0
        self.tries = 0
        self.failed: BaseException | None = None

    def rows(self, batch: int) -> list[bytes]:
        return rows_of(f"{batch}", 400, 500)

    def run(self) -> None:
        try:
            while self.done < self.batches:
                self._publish(self.done)
                self.done += 1
        except BaseException as error:
            self.failed = error
            raise

    def _publish(self, batch: int) -> None:
        names: list[str] = []
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.tries += 1
                with self.bay.client() as client:
                    if not names:
                        name = secrets.token_hex(16)
                        stage(client, name, self.rows(batch))
                        names.append(name)
                    publish(client, "q", batch, *names)
                    return
            except RequestRefused as refused:
                if refused.code not in (Code.UNKNOWN_STAGE, Code.STOPPING):
                    raise
                names.clear()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.mark.nightly
def test_killed_at_any_moment(tmp_path: Path) -> None:
    dice = random.Random(7)
    bay = Bay(tmp_path)
    bay.open_file()
    with bay:
        publisher = Publisher(bay, 40)
        publisher.start()
        for _ in range(6):
            bay.daemon.wait_for("published")
            time.sleep(dice.random() * 0.05)
            bay.kill()
            bay.start()
        publisher.join(PATIENCE * 2)
        assert publisher.failed is None
        assert publisher.done == 40
        expected = [row.decode() for batch in range(40) for row in publisher.rows(batch)]
        assert bay.lines(len(expected)) == expected
        assert publisher.tries > 40, "no kill met a conversation"
