"""docs/architecture.md names places of the tree: all of them are there."""

import re
import tomllib

import pytest

from tests.system.daemon import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
OURS = ("connectors", "docs", "pyspark_walflow", "tests", "walflow", "walflow_kernel")
NAMED = {
    name for name in re.findall(r"`([\w./-]+)`", PAGE) if "/" in name[1:] or name.endswith((".md", ".py", ".toml"))
}
ROWS = [re.findall(r"`([a-z_]+)`", row) for row in re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)]
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_path_is_there(name: str) -> None:
    assert (ROOT / name).exists() or any((ROOT / folder / name).exists() for folder in OURS), name


def test_the_table_is_the_contract_of_the_layers() -> None:
    """Which names each module: that contract is exhaustive."""
    assert [sorted(row) for row in ROWS] == [sorted(row.split(" | ")) for row in CONTRACTS["layers"]["layers"]]


def test_the_page_names_the_doors() -> None:
    begin = PAGE.index("comes by doors")
    named = set(re.findall(r"`(walflow[a-z.]*)`", PAGE[begin : PAGE.index("It imports nothing else", begin)]))
    assert named == set(CONTRACTS["door"]["allowed"])


def test_the_page_names_many_places() -> None:
    """Or the expression that finds them is wrong."""
    assert len(NAMED) > 25
