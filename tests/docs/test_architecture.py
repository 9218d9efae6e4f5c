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
ROWS = [set(re.findall(r"`([a-z_]+)`", row)) for row in re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = [set(line.split(" | ")) for one in CONTRACTS if one["id"] == "layers" for line in one["layers"]]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_path_is_there(name: str) -> None:
    assert (ROOT / name).exists() or any((ROOT / folder / name).exists() for folder in OURS), name


def test_the_table_of_layers_is_that_of_the_import_contract() -> None:
    """In its order; the last row of the page has several lines of the contract."""
    assert len(ROWS) > 15
    assert [*LAYERS[: len(ROWS) - 1], set().union(*LAYERS[len(ROWS) - 1 :])] == ROWS


def test_the_page_names_many_places() -> None:
    """Or the expression that finds them is wrong."""
    assert len(NAMED) > 25
