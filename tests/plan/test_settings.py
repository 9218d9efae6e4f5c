"""`reconnect` stands beside `config`, as in tremor, and belongs to the connector all the same."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from connectors.tcp import TcpClient
from tests.flows.builder import NULL, flow_of
from walflow.diagnostics import render_all
from walflow.plan import load


def written(settings: str, codec: str = "json") -> str:
    return flow_of("null -> peer", null=NULL, peer=f'tcp_client with codec = "{codec}", {settings} end')


def loaded(directory: Path, settings: str) -> tuple[TcpClient | None, Sequence[str]]:
    file = directory / "flow.troy"
    file.write_text(written(settings))
    assembly, diagnostics = load([file])
    found = [plan.connector for plan in assembly.connectors] if assembly else []
    client = next((connector for connector in found if isinstance(connector, TcpClient)), None)
    return client, [diagnostic.message for diagnostic in diagnostics if "is not linked" not in diagnostic.message]


@pytest.mark.parametrize(
    "settings",
    [
        'config = {"url": "a"}, reconnect = {"retry": {"interval_ms": 7, "growth_rate": 2}}',
        'reconnect = {"retry": {"interval_ms": 7, "growth_rate": 2}}, config = {"url": "a"}',
        'config = {"url": "a", "reconnect": {"retry": {"interval_ms": 7, "growth_rate": 2}}}',
    ],
)
def test_reconnect_beside_or_within_config(tmp_path: Path, settings: str) -> None:
    client, said = loaded(tmp_path, settings)
    assert said == []
    assert client is not None
    assert client.reconnect.retry.interval_ms == 7
    assert client.reconnect.retry.growth_rate == 2


def test_what_is_wrong_is_shown_where_it_stands(tmp_path: Path) -> None:
    client, said = loaded(tmp_path, 'config = {"url": "a"}, reconnect = {"retry": {"interval_ms": 0}}')
    assert client is None
    assert said == ["`interval_ms` must be at least 1, not 0"]


CHAINS = [
    (
        'preprocessors = ["separate", "decompress"]',
        "flow.troy:6:91: error: `decompress` behind `separate`: the bytes that it takes may hold the separator",
        "put `base64` between them, or `length-prefixed` in the place of `separate`",
    ),
    (
        'postprocessors = [{"name": "compress", "config": {"algorithm": "gzip"}}, "separate"]',
        "error: `separate` behind `compress`: the bytes it gives may hold the separator",
        "put `base64` between them",
    ),
    ('preprocessors = ["compress"]', "unknown preprocessor `compress`", "this way it is `decompress`"),
    ('postprocessors = ["decompress"]', "unknown postprocessor `decompress`", "this way it is `compress`"),
    (
        'postprocessors = ["remove-empty"]',
        "unknown postprocessor `remove-empty`",
        "there are `base64`, `compress`, `ingest-ns`, `length-prefixed`, `separate` and `textual-length-prefixed`",
    ),
    (
        'preprocessors = ["lenght-prefixed"]',
        "unknown preprocessor `lenght-prefixed`",
        "did you mean `length-prefixed`",
    ),
    ('postprocessors = ["compress"]', "compress wants an algorithm: gzip, zlib, xz, lz4, zstd", ""),
    (
        'postprocessors = ["base64", {"name": "separate", "config": {"separator": ""}}, "base64"]',
        "flow.troy:6:121: error: separate wants a separator of exactly one byte, not ''",
        "",
    ),
]


@pytest.mark.parametrize(("settings", "line", "hint"), CHAINS)
def test_a_chain_that_cannot_be_is_shown_where_it_stands(tmp_path: Path, settings: str, line: str, hint: str) -> None:
    file = tmp_path / "flow.troy"
    file.write_text(written(settings))
    assembly, diagnostics = load([file])
    assert assembly is None
    shown = render_all(diagnostics)
    assert line in shown
    assert hint in shown


SEPARATED = [
    ('preprocessors = ["separate"]', 1),
    ('preprocessors = ["base64", "separate", "remove-empty"]', 1),
    ('postprocessors = [{"name": "separate"}, "base64"]', 1),
    ('preprocessors = ["separate"], postprocessors = ["separate"]', 2),
    ('preprocessors = ["separate", "base64"], postprocessors = ["base64", "separate"]', 0),
    ('preprocessors = ["length-prefixed"], postprocessors = ["length-prefixed"]', 0),
    ("postprocessors = []", 0),
]


@pytest.mark.parametrize(("settings", "warnings"), SEPARATED)
def test_a_newline_is_no_end_of_msgpack(tmp_path: Path, settings: str, warnings: int) -> None:
    file = tmp_path / "flow.troy"
    config = 'config = {"url": "a"}'
    file.write_text(written(f"{config}, {settings}", "msgpack"))
    assembly, diagnostics = load([file])
    assert assembly is not None
    said = [diagnostic.message for diagnostic in diagnostics if "msgpack" in diagnostic.message]
    assert said == ["`separate` beside msgpack: its bytes may hold the separator"] * warnings
