"""A flow that needs a package which is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.daemon import ROOT
from walflow.extras import install_line
from walflow.wal import Log, LogOptions

WITHOUT = "import sys; sys.modules['{}'] = None; import walflow_command; walflow_command.main()"
PERCENTILES = """\
define flow main
flow
  use tremor::connectors;
  define pipeline summary
  pipeline
    use aggr::stats;
    define window four from tumbling with size = 4 end;
    select {aggregate} from in[four] into out;
  end;
  create connector console from connectors::console;
  create pipeline summary;
  connect /connector/console to /pipeline/summary;
  connect /pipeline/summary to /connector/console;
end;
deploy flow main;
"""
RAMPS = """\
onramp:
  - id: in
    type: stdin
"""


def without(module: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT.format(module), *arguments]
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("flow", "module", "extra"),
    [
        ("doors/kafka-in", "confluent_kafka", "kafka"),
        ("doors/kafka-out", "confluent_kafka", "kafka"),
        ("doors/mqtt", "paho", "mqtt"),
        ("doors/dns", "dns", "dns"),
        ("doors/kafka-avro", "fastavro", "avro"),
        ("doors/postgres", "asyncpg", "postgres"),
        ("bench/log", "hdrh", "hdr"),
    ],
)
def test_check_says_what_to_install(flow: str, module: str, extra: str) -> None:
    done = without(module, "check", f"flows/{flow}.troy")
    assert done.returncode == 78
    assert install_line(extra) in done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr  # the name of a class


def test_an_arrow_stream(tmp_path: Path) -> None:
    Log(LogOptions(str(tmp_path / "log"))).close()
    done = without("pyarrow", "wal", "export", str(tmp_path / "log"), "--arrow")
    assert done.returncode == 69
    assert done.stderr == f"walflow: `--arrow` needs pyarrow: {install_line('arrow')}\n"


@pytest.mark.parametrize("command", [["check"], ["run", "--admin", "off"]])
def test_an_aggregate(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "main.troy"
    file.write_text(PERCENTILES.replace("{aggregate}", "stats::hdr(event.ms)"))
    done = without("hdrh", *command, "main.troy", cwd=tmp_path)
    assert done.returncode == 78
    said = f"main.troy:8:12: error: `stats::hdr` needs hdrhistogram: {install_line('hdr')}"
    shown = [
        said,
        "    8 |     select stats::hdr(event.ms) from in[four] into out;",
        f"      |            {'^' * 10}",
    ]
    assert (done.stdout + done.stderr).splitlines()[:3] == shown


def test_the_other_aggregates_do_not_need_it(tmp_path: Path) -> None:
    (tmp_path / "main.troy").write_text(PERCENTILES.replace("{aggregate}", "stats::dds(event.ms)"))
    assert without("hdrh", "check", "main.troy", cwd=tmp_path).returncode == 0


def test_yaml_of_tremor(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(RAMPS)
    done = without("ruamel", "check", "old.yaml", cwd=tmp_path)
    assert done.returncode == 78
    said = f"old.yaml:1:1: error: this file needs ruamel-yaml: {install_line('legacy')}"
    assert (done.stdout + done.stderr).splitlines()[0] == said


def test_settings_for_spark(tmp_path: Path) -> None:
    (tmp_path / "spark.yaml").write_text("partitions: 2\n")
    done = without("ruamel", "check", "--spark-config", str(tmp_path / "spark.yaml"), "flows/spark/windows.troy")
    assert done.returncode == 78
    assert f"error: this file needs ruamel-yaml: {install_line('legacy')}" in done.stdout + done.stderr


def test_trickle_files_and_flow_files_need_no_yaml(tmp_path: Path) -> None:
    done = without("ruamel", "check", "flows/echo/server.troy")
    assert done.returncode == 0
