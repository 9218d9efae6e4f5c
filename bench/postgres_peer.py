"""A real PostgreSQL server of one run, which can be killed."""

import asyncio
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg

from demo.server import free_port

BIN: Final = next(
    iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)),
    os.path.dirname(shutil.which("postgres") or ""),
)
USER: Final = "postgres"  # the server refuses root
PATIENCE: Final = 100.0
SETTINGS: Final = (
    "listen_addresses=127.0.0.1 fsync=off max_connections=30 log_min_messages=warning shared_buffers=16MB"
)


class PostgresPeer:
    """`fsync` is off: what is killed is a process, and its files stay. `directory`: its Unix socket is there too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self._log = directory / "log"
        self.port = free_port()
        self._make()

    def _make(self) -> None:
        self._run("initdb", "--no-sync", "--auth=trust", "--username=postgres", "-D", self.data)

    def __repr__(self) -> str:
        return f"<PostgresPeer at {self.port}>"

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = f"{SETTINGS} port={self.port} unix_socket_directories={self.directory}"
        options = " ".join(f"-c {setting}" for setting in settings.split(" "))
        self._run("pg_ctl", "-w", "-D", self.data, "-l", self._log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-D", self.data, "-m", mode, "stop")

    def kill(self) -> None:
        """With -9, and without its children they end."""
        pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, signal.SIGKILL)

    @property
    def runs(self) -> bool:
        return (
            subprocess.run(
                [f"{BIN}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
            ).returncode
            == 0
        )

    def sql(self, *statements: str) -> Sequence[Any]:
        """One after the other; the rows of the last."""
        return asyncio.run(_fetched(self.dsn, statements))

    def until_it_answers(self, dsn: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                asyncio.run(_fetched(dsn, ["SELECT 1"]))
            except (OSError, asyncpg.PostgresError):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def _run(self, program: str, *arguments: object) -> None:
        command = [f"{BIN}/{program}", *map(str, arguments)]
        done = subprocess.run(
            command,
            **as_its_user(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stderr} {self._log.read_text() if self._log.exists() else ''}"


def as_its_user() -> Mapping[str, Any]:
    """For `subprocess`: not as root."""
    if os.getuid():
        return {}
    user = pwd.getpwnam(USER)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


async def _fetched(dsn: str, statements: Sequence[str]) -> Sequence[Any]:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)  # pgbouncer keeps none
    try:
        rows: Sequence[Any] = ()
        for statement in statements:
            rows = [tuple(row) for row in await connection.fetch(statement)]
        return rows
    finally:
        await connection.close()


@contextmanager
def running_postgres() -> Iterator[PostgresPeer]:
    directory = Path(tempfile.mkdtemp())
    if os.getuid() == 0:
        shutil.chown(directory, USER)
    try:
        peer = PostgresPeer(directory)
        peer.start()
        try:
            yield peer
        finally:
            if peer.runs:
                peer.stop("immediate")
    finally:
        shutil.rmtree(directory)
