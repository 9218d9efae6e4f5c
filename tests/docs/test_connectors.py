"""The part by hand of each page in docs/reference/connectors: each test that it names exists."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.docs.pages.connectors import BY_HAND, classes, connector_page


@pytest.mark.parametrize("name", sorted(classes()))
def test_a_page_says_with_what_the_connector_was_tested(name: str) -> None:
    _, marked, written = (DOCS / "reference" / "connectors" / f"{name}.md").read_text("utf-8").partition(BY_HAND)
    assert marked
    files = re.findall(r"`(tests/[\w/]+\.py)`", written.partition("## Tested with")[2])
    assert files, name
    assert [file for file in files if "def test_" not in (ROOT / file).read_text()] == []


def test_a_page_has_what_the_connector_counts() -> None:
    page = connector_page("http_server", "")
    assert "`walflow_component_refused_requests_total`" in page
    assert "`walflow_component_refused_connections_total`" in page  # of walflow.net
    assert "retried_requests_total" not in page  # of http_client, in the same package


def test_what_is_written_by_hand_stays() -> None:
    assert connector_page("null", f"# old\n\n{BY_HAND}\n\nA word.\n").endswith(f"\n{BY_HAND}\n\nA word.\n")
