"""The Helm chart: what helm makes of it, what Kubernetes takes, and which values are refused."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.system.daemon import ROOT
from walflow.plan import load
from walflow.registry import connectors

CHART = ROOT / "packaging" / "helm" / "walflow"
RENDERED = Path(__file__).with_name("rendered.yaml")
KUBERNETES = "1.31"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
MANIFESTS: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all(RENDERED.read_text("utf-8"))}


def helm() -> str | None:
    ours = ROOT / ".venv" / "helm" / "helm"
    return str(ours) if ours.exists() else shutil.which("helm")


needs_helm = pytest.mark.skipif(helm() is None, reason="there is no helm: `make helm`")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm()), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["walflow", "packaging/helm/walflow", "--kube-version", KUBERNETES]
    return run("template", *where, "--set", "serviceMonitor=true", *arguments)


@pytest.mark.nightly
@needs_helm
def test_helm_finds_no_fault() -> None:
    assert run("lint", "--strict", "packaging/helm/walflow").returncode == 0


@pytest.mark.nightly
@needs_helm
def test_what_helm_makes_of_it() -> None:
    """`helm template walflow packaging/helm/walflow --kube-version 1.31 --set serviceMonitor=true >
    tests/release/rendered.yaml`."""
    assert template().stdout == RENDERED.read_text("utf-8")


@pytest.mark.nightly
@needs_helm
@pytest.mark.parametrize(
    "value", ["ports.admin=5000", "ports.lines=80", "drainSeconds=0", "storage.size=10", "nokey=1"]
)
def test_a_wrong_value_is_refused(value: str) -> None:
    refused = template("--set", value)
    assert refused.returncode == 1
    assert "values don't meet the specifications of the schema" in refused.stderr


def test_the_values_are_what_their_schema_says() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    assert VALUES.keys() | {"global"} == SCHEMA["properties"].keys()


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads a ServiceMonitor as the Prometheus operator does: its types are a module of Go."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    program = tmp_path_factory.mktemp("operator") / "servicemonitor"
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=Path(__file__).with_name("operator"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.nightly
def test_the_prometheus_operator_takes_the_service_monitor(operator: Path) -> None:
    def said(monitor: dict[str, Any]) -> str:
        given = json.dumps(monitor)
        return subprocess.run([operator], input=given, capture_output=True, text=True, check=False).stderr

    monitor = MANIFESTS["ServiceMonitor"]
    assert said(monitor) == ""
    (endpoint,) = monitor["spec"]["endpoints"]
    assert "unknown field" in said(monitor | {"spec": monitor["spec"] | {"jobLable": "x"}})
    assert "cannot unmarshal number" in said(
        monitor | {"spec": monitor["spec"] | {"endpoints": [endpoint | {"port": 5}]}}
    )


def test_kubernetes_takes_it() -> None:
    checker = pytest.importorskip("kubernetes_validate")
    assert sorted(MANIFESTS) == ["ConfigMap", "PodDisruptionBudget", "Service", "ServiceMonitor", "StatefulSet"]
    for kind, one in MANIFESTS.items():
        if kind != "ServiceMonitor":  # of the Prometheus operator: above
            checker.validate(one, KUBERNETES, strict=True)


def test_what_belongs_together() -> None:
    stateful = MANIFESTS["StatefulSet"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    for selector in (stateful["selector"]["matchLabels"], MANIFESTS["Service"]["spec"]["selector"]):
        assert selector.items() <= labels.items()
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    monitor = MANIFESTS["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= MANIFESTS["Service"]["metadata"]["labels"].items()
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} <= {
        port["name"] for port in MANIFESTS["Service"]["spec"]["ports"]
    }
    (container,) = stateful["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert stateful["replicas"] == 1


def test_the_flow_is_one_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "main.troy").write_text(MANIFESTS["ConfigMap"]["data"]["main.troy"], "utf-8")
    assembly, diagnostics = load([tmp_path / "main.troy"], connectors().of("walflow"))
    assert assembly is not None
    assert diagnostics == []
