"""The sentences of `walflow check` that depend on the whole flow."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.cli import app


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


KEYS = """
define flow main
flow
  use tremor::pipelines;
  define connector http from http_server with config = {"url": "127.0.0.1:8080"} end;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from null;
  define connector dead from null;
  create connector http;
  create connector log;
  create connector out;
  create connector dead;
  create pipeline before from pipelines::passthrough;
  create pipeline after from pipelines::passthrough;
  create pipeline errors from pipelines::passthrough;
  connect /connector/http to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
  %s
end;
deploy flow main;
"""


@pytest.mark.parametrize(
    "link", ["", "connect /connector/http/err to /pipeline/errors; connect /pipeline/errors to /connector/dead;"]
)
def test_a_source_whose_keys_no_log_gives_back(link: str) -> None:
    Path("main.troy").write_text(KEYS % link)
    said = CliRunner().invoke(app(), ["check", "main.troy"]).stdout
    forgets = "note: main::http: here a restart forgets all its keys, because its events go to dead and log;"
    assert (forgets in said) == bool(link)
