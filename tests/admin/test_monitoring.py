"""The dashboard and the alert rules that are shipped: they ask for metrics that a daemon has."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.unpacked import PROMETHEUS, absent, environment, program
from tests.flows.builder import flow_of, lines, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.certificates import Authority
from tests.system.daemon import echo_flow, running

FOLDER = Path(__file__).parents[2] / "packaging" / "monitoring"
RULES = FOLDER / "alerts.yaml"
METRIC = re.compile(r"\b(?:walflow|process)_[a-z_]+")


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> Iterator[tuple[str, str]]:
    """Each expression with the title of its panel. Grafana's own variables have values."""
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$", "")


def test_each_metric_is_one_of_a_running_daemon(tmp_path: Path) -> None:
    table = tmp_path / "table.troy"
    db = plain("sqlite", path="rows.db")
    tls = lines("tcp_server", url="127.0.0.1:0", tls=Authority(tmp_path).issue("localhost"))
    table.write_text(flow_of("tcp -> log -> db", tcp=tls, log=plain("wal", path="its-log"), db=db))
    known: set[str] = set()
    for flow in (echo_flow(tmp_path), table):
        with running(flow, tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            admin.until_ready()
            known |= set(re.findall(r"^([a-z_]+)[ {]", admin.get("/metrics")[1], re.MULTILINE))
            assert daemon.terminate() == 0
    variables = "walflow_build_info walflow_topology_edge_info"
    for name, expression in [*((one["alert"], one["expr"]) for one in rules()), *panels(), ("variables", variables)]:
        asked = set(METRIC.findall(expression))
        assert asked or name == "WalflowDown", name
        assert asked <= known, name


@pytest.mark.nightly
def test_prometheus_itself_accepts_the_rules_and_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    promtool = program(PROMETHEUS)
    if promtool is None:
        missing = str(absent(PROMETHEUS))
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    recorded = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(panels())]
    file = tmp_path / "dashboard.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    command = [str(promtool), "check", "rules", str(RULES), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(PROMETHEUS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules())} rules found" in done.stdout


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    of = {"flow": "main", "component": "out", **labels}
    told = ", ".join(f'{key}="{value}"' for key, value in of.items())
    return {"series": f"{name}{{{told}}}", "values": values}


REJECTED = "walflow_component_rejected_events_total"
LETTERS = "walflow_wal_letters"
GIVEN_UP = "walflow_wal_letters_given_up_total"
FAILING = "walflow_component_failing_seconds"
EXPIRY = "walflow_component_certificate_expiry_timestamp_seconds"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("given", "at", "alert", "fires"),
    [
        (series(REJECTED, "0x10 3000x60"), "12m", "WalflowRejectsMany", True),  # a burst, and then none
        (series(REJECTED, "0x10 3000x60"), "30m", "WalflowRejectsMany", False),
        (series(REJECTED, "0x10 100x60"), "12m", "WalflowRejectsMany", False),
        (series(REJECTED, "0+1x200"), "90m", "WalflowRejectsOn", True),  # one a minute, for ever
        (series(REJECTED, "0+1x200"), "50m", "WalflowRejectsOn", False),
        (series(REJECTED, "0x10 5x200"), "90m", "WalflowRejectsOn", False),  # five, once
        (series(LETTERS, "0x5 3x200"), "80m", "WalflowLetters", True),
        (series(LETTERS, "0x5 3x20 0x200"), "80m", "WalflowLetters", False),
        (series(GIVEN_UP, "0x10 5x100"), "30m", "WalflowLettersGivenUp", True),
        (series(GIVEN_UP, "5x200"), "30m", "WalflowLettersGivenUp", False),
        (series(FAILING, "0+60x100"), "7m", "WalflowSinkFails", True),
        (series(FAILING, "0 60 120 0x100"), "7m", "WalflowSinkFails", False),
        (series(EXPIRY, "691200x2000"), "26h", "WalflowCertificateExpires", True),  # it ends on the eighth day
        (series(EXPIRY, "691200x2000"), "23h", "WalflowCertificateExpires", False),
    ],
)
def test_an_alert_fires_when_it_should(
    given: dict[str, str], at: str, alert: str, fires: bool, tmp_path: Path
) -> None:
    promtool = program(PROMETHEUS)
    if promtool is None:
        missing = str(absent(PROMETHEUS))
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    [rule] = [one for one in rules() if one["alert"] == alert]
    bare = tmp_path / "rules.yaml"  # without texts, which promtool would compare
    plain = {key: value for key, value in rule.items() if key != "annotations"}
    bare.write_text(json.dumps({"groups": [{"name": "walflow", "rules": [plain]}]}))
    labels = {"flow": "main", "component": "out", "severity": rule["labels"]["severity"]}
    asked = {"eval_time": at, "alertname": alert, "exp_alerts": [{"exp_labels": labels}] if fires else []}
    tested = {"interval": "1m", "input_series": [given], "alert_rule_test": [asked]}
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(bare)], "evaluation_interval": "1m", "tests": [tested]}))
    command = [str(promtool), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(PROMETHEUS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_says_what_to_do_about_each_alert() -> None:
    text = (FOLDER.parents[1] / "docs" / "howto" / "monitoring.md").read_text()
    for rule in rules():
        assert f"`{rule['alert']}`" in text
