"""The writer without Spark: what travels to a task, and how long a daemon is waited for."""

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_walflow.client import Client
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.wire import Code, RequestRefused
from pyspark_walflow.writer import BatchWriter, StagedRows
from tests.flows.builder import flow_of, lines_out, plain
from tests.pyspark_walflow.bay import Bay, publish
from tests.system.daemon import free_port, running


@pytest.fixture
def bay(tmp_path: Path) -> Iterator[Bay]:
    bay = Bay(tmp_path / "bay")
    bay.open_file()
    with bay:
        yield bay


def rows(count: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array(range(count))], names=["id"])
    yield pa.record_batch([pa.array([], pa.int64())], names=["id"])


def expected(count: int) -> list[str]:
    return [f'{{"id":{number}}}' for number in range(count)]


def test_a_task_gets_a_ticket_that_stages_and_no_more(bay: Bay) -> None:
    writer = BatchWriter(Options.of(bay.options))
    pickled = pickle.dumps(writer)
    assert (bay.state / "token").read_text().strip().encode() not in pickled
    task = pickle.loads(pickled)
    staged = task.write(rows(10))
    assert staged.rows == 10
    assert bay.staged() == [f"{staged.name}.10"]
    client = Client(task._options.endpoint, task._ticket, task._log)
    with pytest.raises(RequestRefused, match="needs the token") as refused:
        publish(client, "q", 0, staged.name)
    assert refused.value.code == Code.DENIED
    client.close()
    for _ in range(2):  # the driver asks again if it did not hear
        task.commit([staged, task.write(iter([]))])
    assert bay.lines(10) == expected(10)
    assert len(bay.said("published already", 1)) == 1
    assert len(bay.lines(10)) == 10


def test_a_connector_may_be_there_for_results_alone(tmp_path: Path) -> None:
    port, flow, out = free_port(), tmp_path / "results.troy", tmp_path / "rows.json"
    lake = plain("spark", path="state", url=f"127.0.0.1:{port}")
    flow.write_text(flow_of("lake -> out", lake=lake, out=lines_out("file", path="rows.json", mode="append")))
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        options = Options.of({"port": str(port), "tokenFile": str(tmp_path / "state" / "token")})
        task = pickle.loads(pickle.dumps(BatchWriter(options)))
        task.commit([task.write(rows(10))])
        assert daemon.terminate() == 0
    assert out.read_text().splitlines() == expected(10)


def test_a_driver_that_aborts_removes_what_it_can_name(bay: Bay) -> None:
    writer = pickle.loads(pickle.dumps(BatchWriter(Options.of(bay.options))))
    staged = writer.write(rows(3))
    writer.abort([None, staged])
    assert bay.staged() == []
    with pytest.raises(WalflowError, match="must be written again"):
        writer.commit([staged])


def test_an_abort_without_a_daemon_is_only_told(bay: Bay, capsys: pytest.CaptureFixture[str]) -> None:
    writer = BatchWriter(Options.of(bay.options))
    bay.kill()
    writer.abort([StagedRows("a" * 32, "q", 1)])
    assert "1 stages are left to themselves: no walflow listens" in capsys.readouterr().err


def test_a_daemon_that_goes_away_is_waited_for(bay: Bay) -> None:
    writer = pickle.loads(pickle.dumps(BatchWriter(Options.of(bay.options))))
    bay.kill()
    restarting = threading.Timer(0.5, bay.start)
    restarting.start()
    staged = writer.write(rows(10))
    restarting.join()
    bay.kill()
    restarting = threading.Timer(0.5, bay.start)
    restarting.start()
    writer.commit([staged])  # a restart keeps what was staged
    restarting.join()
    assert bay.lines(10) == expected(10)


def test_and_not_for_ever(bay: Bay) -> None:
    writer = pickle.loads(pickle.dumps(BatchWriter(Options.of(bay.options | {"retrySeconds": "1"}))))
    bay.kill()
    with pytest.raises(WalflowError, match="no walflow listens"):
        writer.write(rows(1))
