"""The content of a log's quarantine."""

import json
import os
import re
from typing import Final

from walflow.wal.quarantine import FOLDER

REPORT: Final = re.compile(r"[0-9]{20}-[0-9]{20}\.json")


def quarantined(path: str) -> list[dict[str, object]]:
    """The reports, and the other files by name and size."""
    folder = os.path.join(path, FOLDER)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [_kept(folder, name) for name in names if not (name.endswith(".bytes") and f"{name[:-5]}json" in names)]


def reported(path: str) -> list[tuple[int, int, str]]:
    """First and last position and file of each report."""
    folder = os.path.join(path, FOLDER)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [(int(name[:20]), int(name[21:41]), f"{FOLDER}/{name}") for name in names if REPORT.fullmatch(name)]


def _kept(folder: str, name: str) -> dict[str, object]:
    path = os.path.join(folder, name)
    known: dict[str, object] = {"name": name}
    try:
        known["bytes"] = os.lstat(path).st_size
        if REPORT.fullmatch(name):
            with open(path, "rb") as file:
                known["report"] = json.load(file)
    except (OSError, ValueError) as error:
        known["error"] = str(error)
    return known
