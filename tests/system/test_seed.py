"""The flow that tremor's page on the wal prints, unchanged, port and all."""

import json
from pathlib import Path

from tests.system.daemon import Client, running

SEED = Path(__file__).parents[1] / "lang" / "seeds" / "000.troy"
PORT = 65535  # it is in the page


def test_the_pages_flow_echoes_logs_writes_and_recovers(tmp_path: Path) -> None:
    out = tmp_path / "server_out.log"
    with running(SEED, tmp_path) as daemon:
        assert daemon.port() == PORT
        client = Client(PORT)
        client.send(b'{"snot": "badger", "id": 18446744073709551615}\nnonsense\n{"a":1}\n')
        assert client.lines(2) == [b'{"snot": "badger", "id": 18446744073709551615}', b'{"a":1}']
        for start in range(0, 5000, 50):  # several times the hundred kilobytes of its log
            lines = [b'{"id":%d,"pad":"%s"}' % (number, b"x" * 80) for number in range(start, start + 50)]
            client.send(b"".join(line + b"\n" for line in lines))
            assert client.lines(50) == lines
        client.close()
        daemon.drained()
        (error,) = [json.loads(line) for line in b"".join(daemon.stdout).splitlines()]
        assert error.keys() == {"error", "source", "stream_id", "text"}
        assert (error["source"], error["text"]) == ("server::tcp_server", "nonsense")
    written = out.read_bytes().splitlines()
    assert written[0] == b'{"id":18446744073709551615,"snot":"badger"}'  # its file sorts
    assert len(written) == 5002
    assert sum(chunk.stat().st_size for chunk in (tmp_path / "server_state").glob("*.wal")) <= 1024 * 100
