"""Connector types come from entry points, and what is wrong with one is a line that names its distribution."""

from pathlib import Path
from typing import ClassVar

import pytest

from walflow.contract import CONTRACT, Connector, Guarantee
from walflow.plugins import NotLoadable
from walflow.registry import connectors, find


class Mine(Connector):
    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee()


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setattr(sys, "path", [str(tmp_path)])


def distribution(folder: Path, name: str, *points: str) -> None:
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text("\n".join(["[walflow.connectors]", *points]))


def test_nothing_installed() -> None:
    with pytest.raises(NotLoadable) as refused:
        connectors()
    assert str(refused.value) == "no connector type is registered: is walflow installed? (pip install -e .)"


def test_a_type_is_imported_when_it_is_asked_for(tmp_path: Path) -> None:
    distribution(tmp_path, "mine", f"good = {__name__}:Mine", "broken = no.such.module:Thing")
    registry = connectors()
    assert sorted(registry) == ["broken", "good"]
    assert len(registry) == 2
    assert registry["good"] is Mine
    assert find("absent", registry) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no.such.module:Thing", "cannot be loaded: ModuleNotFoundError: No module named 'no'"),
        (f"{__name__}:Absent", f"cannot be loaded: AttributeError: module '{__name__}' has no attribute 'Absent'"),
        (f"{__name__}:distribution", "is no subclass of walflow.Connector"),
        ("builtins:int", "is no subclass of walflow.Connector"),
    ],
)
def test_what_is_no_connector_is_refused(tmp_path: Path, value: str, why: str) -> None:
    distribution(tmp_path, "stranger", f"odd = {value}")
    with pytest.raises(NotLoadable) as refused:
        find("odd", connectors())
    assert str(refused.value) == f"connector type odd of stranger {why}"


class FromTheFuture(Mine):
    contract: ClassVar[int] = 99


class FromThePast(Mine):
    transactional: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "FromTheFuture",
            f"is written for version 99 of the contract, and this walflow has {CONTRACT}: install a newer walflow",
        ),
        (
            "FromThePast",
            (
                "sets `transactional` on its class: since version 2 of the contract it stands in `traits`, as "
                "`traits: ClassVar[Traits] = Traits(transactional=…)`"
            ),
        ),
    ],
)
def test_a_connector_of_another_contract_is_refused(tmp_path: Path, name: str, why: str) -> None:
    distribution(tmp_path, "stranger", f"odd = {__name__}:{name}")
    with pytest.raises(NotLoadable) as refused:
        find("odd", connectors())
    assert str(refused.value) == f"connector type odd of stranger {why}"


def test_two_claims_to_one_type(tmp_path: Path) -> None:
    distribution(tmp_path, "one", "same = one:A")
    distribution(tmp_path, "two", "same = two:B")
    with pytest.raises(NotLoadable) as refused:
        connectors()
    assert str(refused.value) == "connector type same is claimed by one and by two: uninstall one of them"


def test_a_class_by_its_module() -> None:
    assert find(f"{__name__}:Mine", {}) is Mine
    with pytest.raises(NotLoadable) as refused:
        find("nowhere:Mine", {})
    assert str(refused.value) == "nowhere:Mine cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"
