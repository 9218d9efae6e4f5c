from collections.abc import Iterator

import pytest

from tests.faults.lives import Nursery, Script, nursery, scripts


@pytest.fixture(scope="module")
def lives() -> Iterator[Nursery]:
    with nursery() as one:
        yield one


@pytest.fixture(scope="module")
def plans(lives: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Script]:
    return scripts(lives, tmp_path_factory.mktemp("plans"))
