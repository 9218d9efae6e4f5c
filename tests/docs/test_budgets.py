"""docs/reference/budgets.md: each value is that of the code, and each test that it names exists."""

import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from connectors.http import body, request, server_run
from connectors.http.connector import HttpServer
from walflow.admin import taps
from walflow.admin.tap import events, where
from walflow.cli import logs
from walflow.delivery import sender
from walflow.net import listener, retry_sink
from walflow.net.server import ServerConnector
from walflow.nodes import source
from walflow_kernel import json, records, state, values, weight
from walflow_kernel.extractors import influx, rerg
from walflow_kernel.std import re as regex
from walflow_kernel.windows import groups

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/reference/budgets.md").read_text()
ROWS: Final = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| bound")
]


def default(model: type[BaseModel], option: str) -> int:
    found = model.model_fields[option].default
    assert isinstance(found, int)
    return found


VALUES: Final = {
    "bytes of an event": source.MAX_EVENT_BYTES,
    "levels that JSON nests": json.DEEPEST,
    "commas in a line of `influx`": influx.MEMBERS,
    "bytes of a value that a script makes": weight.HEAVIEST,
    "bytes of values that the scripts of an event compare, walk and hand to functions, in all": weight.MOST_USED,
    "characters or elements that one function makes": values.LONGEST,
    "turns of a function with `recur`": records.MOST_TURNS,
    "bytes searched by one `re::replace_all`, `re::split` or `rerg`": regex.SEARCHED,
    "matches of one `rerg`": rerg.MOST,
    "bytes of a compiled pattern": regex.MOST_MEMORY,
    "bytes of the `state` of a script": state.BOUND,
    "levels that a `state` nests": state.DEEPEST,
    "groups of a select with windows": groups.DEFAULT_MAX_GROUPS,
    "bytes of the windows of a select": groups.DEFAULT_MAX_BYTES,
    "clients of a server": default(ServerConnector, "max_connections"),
    "file descriptors that are kept for logs and files": listener.RESERVED,
    "bytes that wait for one slow client": default(ServerConnector, "write_buffer"),
    "bytes that wait for all clients of a server": default(ServerConnector, "max_write_buffers"),
    "bytes of a body, inflated": default(HttpServer, "max_body_bytes"),
    "events of a request": default(HttpServer, "max_events"),
    "bytes of a head": request.HEAD_BYTES,
    "characters of an `Idempotency-Key`": server_run.LONGEST_KEY,
    "keys that are remembered": default(HttpServer, "idempotency_keys"),
    "events that a log, `memory` or a broker's consumer sends": sender.TURN_EVENTS,
    "bytes of the same": sender.TURN_BYTES,
    "events that become requests, without batches": retry_sink.STEP,
    "bytes of a body that are judged": body.BLOCK_BYTES,
    "taps open at a time": taps.MOST,
    "characters of a condition of a tap": where.LONGEST,
    "steps of a condition for one event": where.STEPS,
    "bytes of an event that a tap shows": events.LARGEST,
    "similar log lines in 10 seconds": logs.BURST,
    "characters of one value in a log line": logs.LONGEST,
}
OPTIONS: Final = {**ServerConnector.model_fields, **HttpServer.model_fields, "max_groups": None, "max_bytes": None}


def shown(bound: str, value: int) -> str:
    if not bound.startswith("bytes"):
        return str(value)
    return f"{value >> 20} MiB" if value >= 1 << 20 else f"{value >> 10} KiB"


def test_each_value_is_that_of_the_code() -> None:
    assert {row[0]: row[1] for row in ROWS} == {bound: shown(bound, value) for bound, value in VALUES.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_names_its_option_and_its_test(row: tuple[str, ...]) -> None:
    *_, option, test = row
    assert not option or option.strip("`") in OPTIONS
    found = re.fullmatch(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", test)
    assert found, test
    assert f"def {found[2] or 'test_'}" in (ROOT / found[1]).read_text(), test
