"""The habits of real file systems: a preallocation that fails keeps blocks on ext4, not on xfs. On images that root may mount."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.image import MAKE, MIB, Image, missing
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Client, echo_flow, running


@pytest.fixture(params=list(MAKE))
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Image]:
    if why := missing(request.param):
        pytest.skip(why)
    with Image(tmp_path, request.param) as image:
        yield image


def test_a_disk_with_less_room_than_a_chunk_takes_events_all_the_same(image: Image, tmp_path: Path) -> None:
    """And what did not come off is given back."""
    image.fill(29 * MIB)
    flow = echo_flow(tmp_path, chunk_size=64 * MIB, max_chunks=4)
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        for number in range(20):
            client.send(b'"%d"\n' % number)
            assert client.lines(1) == [b'"%d"' % number]
        assert admin.metrics()["walflow_wal_disk_full", "log"] == 0
        assert image.free > 4 * MIB, "the log takes no more than a part"
        client.close()
        assert daemon.terminate() == 0
    with running(flow, tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'"again"\n')
        assert client.lines(1) == [b'"again"']
        client.close()
        assert daemon.terminate() == 0


def test_a_disk_that_gets_full_is_used_to_its_end_and_goes_on_when_there_is_room(
    image: Image, tmp_path: Path
) -> None:
    image.fill(3 * MIB)
    flow = echo_flow(tmp_path, chunk_size=64 * MIB, max_chunks=4)
    with running(flow, tmp_path) as daemon:
        client = Client(daemon.port())
        sent = 0
        for _ in range(60):
            client.send(b'"%s"\n' % (b"x" * (64 << 10)))
            sent += 1
        daemon.wait_for("breaker triggered")
        image.release()
        assert len(client.lines(sent)) == sent
        client.close()
        daemon.drained()
