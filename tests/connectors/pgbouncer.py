"""A real pgbouncer, which gives out connections to a server by transaction."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.postgres_peer import PATIENCE, PostgresPeer, as_its_user
from demo.server import free_port

PGBOUNCER: Final = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is missing (apt install pgbouncer)")


@contextmanager
def pooled(peer: PostgresPeer, directory: Path) -> Iterator[str]:
    """Its DSN. Two connections to the server, and a client has one for a transaction."""
    port = free_port()
    config = directory / "pgbouncer.ini"
    config.write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={peer.port} user=postgres\n[pgbouncer]\n"
        "listen_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
        "server_lifetime = 1\nignore_startup_parameters = extra_float_digits\n"
    )
    config.chmod(0o644)
    assert PGBOUNCER is not None
    dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    process = subprocess.Popen(
        [PGBOUNCER, "-q", str(config)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **as_its_user()
    )
    try:
        peer.until_it_answers(dsn)
        yield dsn
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
