"""Roles come from entry points: what another distribution says runs pipelines is an engine, under its type's name."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest

from walflow.contract import Connector, HostSettings, PipelineHost
from walflow.lang import load
from walflow.plan.on_spark import host_of
from walflow.plugins import NotLoadable
from walflow.registry import connectors
from walflow.roles import engines, type_of


class RocketSettings(HostSettings):
    fuel: int = 1


class Rocket(PipelineHost):
    settings: ClassVar[type[HostSettings]] = RocketSettings


class Cart(Connector):
    pass


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])


def distribution(folder: Path, *, engine: str) -> None:
    info = folder / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    types = f"[walflow.connectors]\nrocket = {__name__}:Rocket\ncart = {__name__}:Cart\n"
    (info / "entry_points.txt").write_text(f"{types}[walflow.roles]\nengine = {__name__}:{engine}\n")


def test_an_engine_has_the_name_of_its_type(tmp_path: Path) -> None:
    distribution(tmp_path, engine="Rocket")
    assert engines() == ("daemon", "rocket")
    assert host_of(connectors()) == ("rocket", Rocket)


def test_a_role_that_no_distribution_takes(tmp_path: Path) -> None:
    distribution(tmp_path, engine="Rocket")
    with pytest.raises(NotLoadable, match="no connector has the role log"):
        type_of("log")


def test_an_engine_that_runs_no_pipelines_is_refused(tmp_path: Path) -> None:
    distribution(tmp_path, engine="Cart")
    with pytest.raises(NotLoadable, match=r"cart has the role engine, and is no subclass of walflow\.PipelineHost"):
        host_of(connectors())


def test_a_file_may_name_it_and_no_other(tmp_path: Path) -> None:
    distribution(tmp_path, engine="Rocket")
    flow = tmp_path / "flow.troy"
    flow.write_text("""
define flow main
flow
    define pipeline p pipeline
        #!config engine = "spark"
        #!config rocket = {"fuel": 2}
        select event from in into out;
    end;
    create pipeline p;
end;
deploy flow main;
""")
    _, found = load([flow])
    assert [one.message for one in found] == ["`engine` is `daemon` or `rocket`"]
