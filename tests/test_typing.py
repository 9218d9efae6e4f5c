"""A user's type checker takes our connectors and a connector written as the how-to says,
without pydantic's plugin."""

import subprocess
import sys
from pathlib import Path

CONFIGURED = """
from connectors.file import File
from connectors.spark import Spark
from connectors.tcp import TcpClient, TcpServer
from connectors.wal import Wal

wal = Wal(path="state", chunk_size=16 << 20)
file = File(path="out.log", mode="append")
server = TcpServer(url="127.0.0.1:65535")
client = TcpClient(url="127.0.0.1:65535", ack="echo")
spark = Spark(path="lake", query="select value from in")
"""

MISTAKES = {
    'Wal(path="state", chunk_size="large")': 'Argument "chunk_size" to "Wal" has incompatible type "str"',
    "Wal()": 'Missing named argument "path" for "Wal"',
    'Wal(path="state", chunks=1)': 'Unexpected keyword argument "chunks" for "Wal"',
}


def mypy_of(source: str, directory: Path) -> list[str]:
    directory.joinpath("mine.py").write_text(source)
    directory.joinpath("mypy.ini").write_text("[mypy]\nstrict = true\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(directory / "cache"), "mine.py"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False).stdout.splitlines()


def test_our_connectors_are_made_with_what_has_no_default(tmp_path: Path) -> None:
    assert mypy_of(CONFIGURED, tmp_path) == ["Success: no issues found in 1 source file"]


def test_a_mistake_is_told(tmp_path: Path) -> None:
    said = mypy_of("\n".join(["from connectors.wal import Wal", *MISTAKES, ""]), tmp_path)
    for (line, expected), found in zip(enumerate(MISTAKES.values(), 2), said, strict=False):
        assert found.startswith(f"mine.py:{line}: error: {expected}")
    assert said[-1] == f"Found {len(MISTAKES)} errors in 1 file (checked 1 source file)"
