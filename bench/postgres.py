"""A log into a table of PostgreSQL, beside `psql \\copy` of the same rows in as many commits, and beside a plain
script that inserts them: `python -m bench.postgres [ROUNDS]`.

The events wait in the log until the table is made. What is measured goes from the first rows that can be seen to the
last. The server does not sync (`fsync = off`), so that its disk is not what is measured; walflow's log does.

Then how long one event takes, the median of LONE that come one after the other: from a line on a socket, through the
log, to the commit of its row, of which a trigger tells a listener. Beside it a script that appends the line to a
file, syncs it and inserts it."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import asyncpg

from bench.postgres_peer import BIN, PostgresPeer, running_postgres
from demo.server import Server, free_port

ROUNDS: Final = 5
EVENTS: Final = 1_000_000
COMMIT: Final = 10_000  # events
LONE: Final = 300  # events whose way is timed
LOOK: Final = 0.2  # seconds between two looks, which count all rows
PAYLOADS: Final = [
    json.dumps({"host": f"host{number % 100}", "n": number, "message": "x" * 80}).encode() for number in range(EVENTS)
]
TABLE: Final = "CREATE TABLE events (event jsonb)"
TELLING: Final = (
    """CREATE OR REPLACE FUNCTION tell() RETURNS trigger AS
    $$ BEGIN PERFORM pg_notify('rows', NEW.event->>'n'); RETURN NEW; END $$ LANGUAGE plpgsql""",
    "CREATE TRIGGER told AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION tell()",
)
FLOW: Final = """
define flow main
flow
  use tremor::pipelines;
  define connector tcp from tcp_server
  with codec = "json", preprocessors = ["separate"], config = {{"url": "127.0.0.1:{port}"}}
  end;
  define connector log from wal with config = {{"path": "log"}} end;
  define connector db from postgres with config = {{"dsn": "{dsn}", "create": false}} end;
  create connector tcp;
  create connector log;
  create connector db;
  create pipeline take from pipelines::passthrough;
  create pipeline rows from pipelines::passthrough;
  connect /connector/tcp to /pipeline/take;
  connect /pipeline/take to /connector/log;
  connect /connector/log to /pipeline/rows;
  connect /pipeline/rows to /connector/db;
end;
deploy flow main;
"""


def walflow(peer: PostgresPeer) -> float:
    """Rows a second."""
    with TemporaryDirectory() as folder:
        workdir, port = Path(folder), free_port()
        flow = workdir / "flow.troy"
        flow.write_text(FLOW.format(port=port, dsn=peer.dsn))
        with Server(flow, workdir) as server:
            server.start()
            server.wait_for("ready")
            _send(port)
            peer.sql(TABLE)
            return _rate(peer)


def _send(port: int) -> None:
    """Returns when all of it is read."""
    subprocess.run(
        [sys.executable, "-c", SENDER, str(port)], input=b"".join(payload + b"\n" for payload in PAYLOADS), check=True
    )


SENDER: Final = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
    sock.sendall(sys.stdin.buffer.read())
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536): pass
"""


def _rate(peer: PostgresPeer) -> float:
    first = 0
    while True:
        rows: int = peer.sql("SELECT count(*) FROM events")[0][0]
        now = time.perf_counter()
        if rows and not first:
            first, began = rows, now
        elif rows == EVENTS:
            return (rows - first) / (now - began)
        time.sleep(LOOK)


def psql(peer: PostgresPeer) -> float:
    peer.sql(TABLE)
    with TemporaryDirectory() as folder:
        script: list[str] = []
        for at in range(0, EVENTS, COMMIT):
            file = Path(folder, f"{at}.txt")
            file.write_bytes(
                b"".join(payload.replace(b"\\", b"\\\\") + b"\n" for payload in PAYLOADS[at : at + COMMIT])
            )
            script.append(f"\\copy events from '{file}'")
        began = time.perf_counter()
        subprocess.run([f"{BIN}/psql", "-q", peer.dsn], input="\n".join(script).encode(), check=True)
        return EVENTS / (time.perf_counter() - began)


def script(peer: PostgresPeer) -> float:
    peer.sql(TABLE)
    began = time.perf_counter()
    asyncio.run(_insert(peer.dsn))
    return EVENTS / (time.perf_counter() - began)


async def _insert(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for at in range(0, EVENTS, COMMIT):
            async with connection.transaction():
                rows = [(payload.decode(),) for payload in PAYLOADS[at : at + COMMIT]]
                await connection.executemany("INSERT INTO events VALUES ($1)", rows)
    finally:
        await connection.close()


def lone(peer: PostgresPeer) -> tuple[float, float]:
    """Seconds: walflow's, and the script's."""
    peer.sql("DROP TABLE IF EXISTS events, walflow_frontier", TABLE, *TELLING)
    with TemporaryDirectory() as folder:
        workdir, port = Path(folder), free_port()
        flow = workdir / "flow.troy"
        flow.write_text(FLOW.format(port=port, dsn=peer.dsn))
        with Server(flow, workdir) as server:
            server.start()
            server.wait_for("ready")
            return asyncio.run(_timed(peer.dsn, port, workdir / "lines"))


async def _timed(dsn: str, port: int, file: Path) -> tuple[float, float]:
    told = asyncio.Event()
    listener, inserter = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    _, line = await asyncio.open_connection("127.0.0.1", port)
    lines = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def walflows(payload: bytes) -> None:
        line.write(payload + b"\n")

    async def scripts(payload: bytes) -> None:
        os.write(lines, payload + b"\n")
        os.fdatasync(lines)
        await inserter.execute("INSERT INTO events VALUES ($1)", payload.decode())

    try:
        await listener.add_listener("rows", lambda *_: told.set())
        medians: list[float] = []
        for give in (walflows, scripts):
            taken: list[float] = []
            for payload in PAYLOADS[: LONE + 1]:
                told.clear()
                began = time.perf_counter()
                await give(payload)
                await told.wait()
                taken.append(time.perf_counter() - began)
            medians.append(statistics.median(taken[1:]))
        return medians[0], medians[1]
    finally:
        line.close()
        os.close(lines)
        await inserter.close()
        await listener.close()


def main(rounds: int = ROUNDS) -> None:
    found: dict[str, list[float]] = {"walflow": [], "psql": [], "script": []}
    ways: list[tuple[float, float]] = []
    with running_postgres() as peer:
        for _ in range(rounds):
            for name, measured in (("walflow", walflow), ("psql", psql), ("script", script)):
                peer.sql("DROP TABLE IF EXISTS events, walflow_frontier")
                found[name].append(measured(peer))
            ways.append(lone(peer))
            alone = "{:.2f} ms, {:.2f} ms".format(*(1000 * one for one in ways[-1]))
            print({name: round(rates[-1]) for name, rates in found.items()}, alone, flush=True)
    for other in ("psql", "script"):
        ratios = [ours / theirs for ours, theirs in zip(found["walflow"], found[other], strict=True)]
        print(f"walflow ÷ {other}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    ratios = [ours / theirs for ours, theirs in ways]
    print(f"one event, walflow ÷ script: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
