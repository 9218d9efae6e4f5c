"""What a message says to install: the packages of an extra, by the metadata that pip reads."""

import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from pyspark_walflow.requirement import PACKAGES
from walflow.extras import extra_with, lacks, packages_of

ROOT = Path(__file__).parents[1]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def normal(name: str) -> str:
    """As pip's metadata has it."""
    return name.replace(".", "-")


def parts(requirement: str) -> tuple[str, frozenset[str]]:
    """The name, and the versions in any order: pip's metadata sorts them."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return normal(name.group()), frozenset(requirement[name.end() :].split(","))


@pytest.mark.parametrize("package", ["hdrhistogram", "ruamel-yaml"])
def test_the_extra_that_installs_a_package(package: str) -> None:
    assert package in {parts(one)[0] for one in packages_of(extra_with(package))}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_pyproject_says(extra: str) -> None:
    assert {parts(one) for one in packages_of(extra)} == {parts(one) for one in EXTRAS[extra]}


def test_the_message_names_package_and_line() -> None:
    pip = f"{sys.executable} -m pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    assert lacks("the codec avro", "avro") == f"the codec avro needs fastavro: {pip} 'fastavro>=1.9'"


def test_the_driver_names_the_extra_of_spark() -> None:
    """It cannot ask the metadata: walflow may not be installed where Spark's driver runs."""
    assert sorted(PACKAGES) == sorted(EXTRAS["spark"])


def test_the_how_to_lists_each_extra_and_its_packages() -> None:
    page = (ROOT / "docs" / "howto" / "install.md").read_text()
    for extra, packages in EXTRAS.items():
        (row,) = re.findall(rf"^\| `{extra}` \|.*$", page, re.MULTILINE)
        assert [normal(one) for one in re.findall(r"`([\w.-]+)`", row.split("|")[3])] == [
            parts(one)[0] for one in packages
        ]


def test_no_message_and_no_page_asks_an_index_for_walflow() -> None:
    sources = [
        *ROOT.glob("walflow*/**/*.py"),
        *ROOT.glob("connectors/**/*.py"),
        *ROOT.glob("pyspark_walflow/**/*.py"),
    ]
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("flows/**/*.troy"), ROOT / "README.md"]
    asks = [path for path in (*sources, *pages) if re.search(r"pip install '?walflow\b", path.read_text())]
    assert asks == [ROOT / "docs" / "howto" / "install.md"]  # which says that it finds nothing
