"""What a run came to, as JSON and back."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

SPARK = "spark"  # what `python -m bench.spark` keeps in the same file


@dataclass(frozen=True)
class Row:
    """`rounds`: what was measured, by name, one mapping a round; with one alone it was measured once. `missing`: why
    there are none."""

    key: str
    name: str
    table: str
    baseline: str = ""
    missing: str | None = None
    rounds: Sequence[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])


@dataclass(frozen=True)
class Document:
    machine: Mapping[str, object]
    settings: Mapping[str, float]  # rounds, seconds, warmup
    cases: Sequence[Row] = ()
    spark: Mapping[str, Any] = field(default_factory=dict[str, Any])  # asdict of bench.spark's document

    def row(self, key: str) -> Row | None:
        return next((row for row in self.cases if row.key == key), None)


def write(file: Path, document: Document) -> None:
    """Beside what `python -m bench.spark --json` has written there, if it is that."""
    whole = asdict(document)
    del whole[SPARK]
    file.write_text(json.dumps(_there(file) | whole, indent=2) + "\n")


def read(file: Path) -> Document:
    """Raises ValueError, OSError."""
    try:
        whole = json.loads(file.read_text())
        rows = [Row(**row) for row in whole["cases"]]
        return Document(whole["machine"], whole["settings"], rows, whole.get(SPARK, {}))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} has no results of python -m bench") from error


def _there(file: Path) -> dict[str, object]:
    try:
        found: object = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    whole = cast(dict[str, object], found) if isinstance(found, dict) else {}
    return {name: value for name, value in whole.items() if name == SPARK}


def machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "cpu": cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "commit": commit(),
    }


def commit() -> str:
    """Of this checkout; "" where there is none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
