"""Power cuts in small doses, for what only they can see. Named by hand: `python -m tests.mutation` does, `make test`
cuts more of them in tests/wal/test_power_cut.py."""

from random import Random

import pytest

from tests.proof.arrived import Arrived
from tests.proof.imports import Import
from tests.proof.laned import Laned
from tests.proof.proof import Effort, Proof
from tests.proof.repair_promises import DAMAGES, Repair
from tests.proof.scripts import SCRIPTS, scripted
from tests.proof.sidecar import Sidecar
from tests.proof.stories import Generated
from tests.wal.test_power_cut import FOUND

QUICK = Effort((6, 3), (0.1,))
MORE = Effort((16, 4), (0.2,))


@pytest.mark.parametrize("seed", range(1, len(SCRIPTS)))
def test_a_scripted_story(seed: int) -> None:
    Proof(scripted(seed), Random(seed)).run()


@pytest.mark.parametrize("seed", range(40))
def test_a_generated_story(seed: int) -> None:
    Proof(Generated(seed, effort=QUICK if seed < 30 else MORE), Random(seed)).run()


@pytest.mark.parametrize("seed", range(12))
def test_a_story_of_several_lanes(seed: int) -> None:
    Proof(Laned(seed, effort=QUICK), Random(seed)).run()


@pytest.mark.parametrize("seed", range(12))
def test_a_story_of_two_logs_in_a_row(seed: int) -> None:
    Proof(Arrived(seed, effort=Effort((3, 2), (0.03,))), Random(seed)).run()


@pytest.mark.parametrize("seed", FOUND)
def test_a_story_that_found_something(seed: int) -> None:
    Proof(Generated(seed), Random(seed)).run()


@pytest.mark.parametrize("seed", range(12))
def test_a_story_of_the_sidecar(seed: int) -> None:
    Proof(Sidecar(seed, effort=QUICK if seed < 9 else MORE), Random(seed)).run()


@pytest.mark.parametrize("seed", range(len(DAMAGES)))
def test_a_story_of_a_repair(seed: int) -> None:
    Proof(Repair(seed), Random(seed)).run()


@pytest.mark.parametrize("seed", range(4))
def test_a_story_of_an_import(seed: int) -> None:
    Proof(Import(seed), Random(seed)).run()
