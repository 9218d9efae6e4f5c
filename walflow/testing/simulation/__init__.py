"""A whole daemon in a simulated world, under one seed: see `run`."""

from walflow.testing.simulation.life import Life, Lives, now_running
from walflow.testing.simulation.loop import SimulatedLoop, StandsStill
from walflow.testing.simulation.machine import Machine, Weather
from walflow.testing.simulation.run import simulated
from walflow.testing.simulation.strands import Killed

__all__ = [
    "Killed",
    "Life",
    "Lives",
    "Machine",
    "SimulatedLoop",
    "StandsStill",
    "Weather",
    "now_running",
    "simulated",
]
