"""An upgrade by `walflow reload`: the next process is of a later version. What each release says to it is in
`tests/system/handover`, and every later one understands that.

Before a release, `python -m tests.system.test_reload_versions` writes down what this version says.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.system.daemon import Client, free_port
from tests.system.test_reload import echo, started
from tests.waiting import wait_until
from walflow.admin.document import Status
from walflow.admin.nodes import RunningNodes
from walflow.runtime.handover.messages import ConnectionMessages, DescriptorMessage, FirstMessage, Said
from walflow_kernel.version import __version__

BETWEEN: Final = Path(__file__).with_name("handover") / "between.py"
RECORDED: Final = {path.stem: path for path in BETWEEN.parent.glob("*.json")}

Messages = Sequence[Mapping[str, Any]]


def handover(directory: Path) -> Mapping[str, Messages]:
    """All that two processes of this version say, as one hands a listening socket, a lock and a connection with half
    a line to the other."""
    said, port = directory / "said", free_port()
    os.environ["WALFLOW_SAID"] = str(said)
    try:
        with started(directory, echo(port), command=[sys.executable, str(BETWEEN), "run"]) as daemon:
            client = Client(port)
            client.send(b'1\n{"half"')
            assert client.lines(1) == [b"1"]
            daemon.reloads()
            client.send(b": 2}\n")
            assert client.lines(1) == [b'{"half": 2}']
            client.close()
            daemon.ends()
            wait_until(said.exists)
    finally:
        del os.environ["WALFLOW_SAID"]
    found: Mapping[str, Messages] = json.loads(said.read_bytes())
    return found


def kinds(messages: Messages) -> set[tuple[str, ...]]:
    """Of messages and of what stands in them, the keys."""
    return {
        tuple(sorted(each))
        for message in messages
        for each in (message, *(value for value in message.values() if isinstance(value, dict)))
        if "tells" not in each or not each["tells"]
    }


@pytest.mark.parametrize("version", RECORDED)
def test_what_each_release_has_said_is_understood(version: str) -> None:
    said = json.loads(RECORDED[version].read_bytes())
    asked, *rest = said["before"]
    running = msgspec.convert(asked, FirstMessage).running
    assert msgspec.convert(running.nodes, RunningNodes).nodes
    assert msgspec.convert(running.status, Status).version == version
    each = [
        msgspec.convert(one, ConnectionMessages if {"connections", "begin"} & one.keys() else DescriptorMessage)
        for one in rest
    ]
    handed = [one for one in each if isinstance(one, DescriptorMessage)]
    assert sum(count for one in handed for _, count in one.sockets) == 4  # two, to look, and again to take over
    assert sum(one.locks for one in handed) > 0
    assert [one.all for one in handed] == [False, True, False, True]
    (connection,) = (
        one for each_one in each if isinstance(each_one, ConnectionMessages) for one in each_one.connections
    )
    assert connection.came
    assert isinstance(each[-1], ConnectionMessages)
    assert each[-1].begin is not None
    words = [msgspec.convert(one, Said).what for one in said["next"]]
    assert (words[0], words[-1]) == ("checked", "serving")


def test_this_version_says_what_is_recorded_of_it(tmp_path: Path) -> None:
    """Once it is released, a message that changes is one that the next release must understand as it was."""
    recorded, now = json.loads(RECORDED[__version__].read_bytes()), handover(tmp_path)
    assert {side: kinds(messages) for side, messages in now.items()} == {
        side: kinds(messages) for side, messages in recorded.items()
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        text = json.dumps(handover(Path(made)), indent=1, sort_keys=True)
    BETWEEN.with_name(f"{__version__}.json").write_text(text + "\n")
