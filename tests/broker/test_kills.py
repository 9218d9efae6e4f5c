"""The recorded run, shorter: `pytest -m soak tests/broker`."""

from pathlib import Path

import pytest

from tests.broker.jars import absent
from tests.broker.kills import run


@pytest.mark.soak
@pytest.mark.skipif(absent() is not None, reason=str(absent()))
def test_what_was_answered_arrives_over_kills_of_everything(tmp_path: Path) -> None:
    proof = run(tmp_path, 8, lambda text: None)
    assert proof.holds, str(proof)
    assert proof.answered > 100
