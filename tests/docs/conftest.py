"""A browser for the tests of a page."""

import os
from collections.abc import Iterator

import pytest

from tests.docs.browser import CHROMIUM, Browser, chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        missing = "Chromium is not installed: sudo apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one
