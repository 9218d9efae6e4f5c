"""packaging/kubernetes.yaml: what Kubernetes takes, and what fits together."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from walflow.diagnostics import render_all
from walflow.plan import load
from walflow.registry import connectors

FILE = Path(__file__).parents[2] / "packaging" / "kubernetes.yaml"
KUBERNETES = "1.31"
MANIFESTS: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text("utf-8"))}
POD: dict[str, Any] = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]


def test_kubernetes_takes_them() -> None:
    checker = pytest.importorskip("kubernetes_validate")
    assert sorted(MANIFESTS) == ["ConfigMap", "Service", "StatefulSet"]
    for one in MANIFESTS.values():
        checker.validate(one, KUBERNETES, strict=True)


def test_one_pod_with_its_log_on_a_volume() -> None:
    (container,) = POD["containers"]
    assert MANIFESTS["StatefulSet"]["spec"]["replicas"] == 1
    claims = {claim["metadata"]["name"] for claim in MANIFESTS["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == claims | {volume["name"] for volume in POD["volumes"]}
    assert [mounts[claim] for claim in claims] == ["/var/lib/walflow"]
    assert "WORKDIR /var/lib/walflow" in (FILE.parents[1] / "Dockerfile").read_text("utf-8")


def test_the_flow_in_them_is_one_without_a_warning(tmp_path: Path) -> None:
    flow = tmp_path / "main.troy"
    flow.write_text(MANIFESTS["ConfigMap"]["data"]["main.troy"], encoding="utf-8")
    assembly, diagnostics = load([flow], connectors().of("walflow"))
    assert assembly is not None, render_all(diagnostics)
    assert diagnostics == []
    (listening,) = re.findall(r'"0\.0\.0\.0:(\d+)"', flow.read_text())
    (port,) = MANIFESTS["Service"]["spec"]["ports"]
    ports = {one["name"]: one["containerPort"] for one in POD["containers"][0]["ports"]}
    assert port["port"] == ports[port["name"]] == int(listening)
