"""Spark's file sink holds every event once, whoever is killed at whichever point: kills at named points, each proved
from what is on disk and on the wire to have hit its point.

`python -m tests.exactly_once --kills 10` kills ten times at each point and prints the ledger; the suite kills twice.
"""
