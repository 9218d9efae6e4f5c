"""docs/architecture.md names places of the tree: all of them are there."""

import re

import pytest

from tests.system.daemon import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
OURS = ("connectors", "docs", "pyspark_walflow", "tests", "walflow", "walflow_kernel")
NAMED = {
    name for name in re.findall(r"`([\w./-]+)`", PAGE) if "/" in name[1:] or name.endswith((".md", ".py", ".toml"))
}
LAYERS = {
    name
    for row in re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    for name in re.findall(r"`([a-z_]+)`", row)
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_path_is_there(name: str) -> None:
    assert (ROOT / name).exists() or any((ROOT / folder / name).exists() for folder in OURS), name


def test_each_layer_is_a_module_and_each_module_has_a_layer() -> None:
    modules = {
        path.stem for path in (ROOT / "walflow").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert modules >= LAYERS
    assert len(LAYERS) > 20


def test_the_page_names_many_places() -> None:
    """Or the expression that finds them is wrong."""
    assert len(NAMED) > 25
