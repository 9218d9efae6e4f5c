"""packaging/kubernetes-spark.yaml, of docs/howto/spark-clusters.md: what Kubernetes takes, and what fits together."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from walflow.diagnostics import render_all
from walflow.plan import load
from walflow.registry import connectors

FILE = Path(__file__).parents[2] / "packaging" / "kubernetes-spark.yaml"
KUBERNETES = "1.31"


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text("utf-8"))}


def test_kubernetes_takes_them(manifests: dict[str, Any]) -> None:
    checker = pytest.importorskip("kubernetes_validate")
    assert sorted(manifests) == ["ConfigMap", "Service", "StatefulSet"]
    for one in manifests.values():
        checker.validate(one, KUBERNETES, strict=True)
    wrong = {**manifests["Service"], "spec": {"port": 1}}
    with pytest.raises(checker.ValidationError):
        checker.validate(wrong, KUBERNETES, strict=True)


def test_they_fit_together(manifests: dict[str, Any]) -> None:
    pod = manifests["StatefulSet"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    names = {volume["name"] for volume in pod["spec"]["volumes"]}
    names |= {claim["metadata"]["name"] for claim in manifests["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in manifests["Service"]["spec"]["ports"]:
        assert ports[port["name"]] == port["port"]
    assert manifests["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    (volume,) = [one for one in pod["spec"]["volumes"] if "configMap" in one]
    assert volume["configMap"]["name"] == manifests["ConfigMap"]["metadata"]["name"]


def test_the_flow_in_them_is_one(manifests: dict[str, Any], tmp_path: Path) -> None:
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    ports = {str(port["containerPort"]) for port in pod["containers"][0]["ports"]}
    flow = tmp_path / "main.troy"
    flow.write_text(manifests["ConfigMap"]["data"]["main.troy"], encoding="utf-8")
    assembly, diagnostics = load([flow], connectors().of("walflow"))
    assert assembly is not None, render_all(diagnostics)
    assert set(re.findall(r'"0\.0\.0\.0:(\d+)"', flow.read_text())) <= ports
