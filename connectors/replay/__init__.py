"""Sends again what a log has."""

from connectors.replay.connector import Replay

__all__ = ["Replay"]
