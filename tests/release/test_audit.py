"""Known problems of the locked dependencies, from a directory of advisories."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.daemon import ROOT

RANGE = [{"introduced": "1.2"}, {"fixed": "1.10"}]


def advisory(events: list[dict[str, str]], name: str = "Some_Package", **fields: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": events}]
    affected = [{"package": {"ecosystem": "PyPI", "name": name}, "ranges": ranges}]
    return {"id": "PYSEC-1", "aliases": ["CVE-1"], "modified": "2026-01-02T03:04:05Z", "affected": affected} | fields


def audit(folder: Path, version: str, *known: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    lock = folder / "requirements.lock"
    lock.write_text(f"some-package=={version} ; python_version < '4' \\\n    --hash=sha256:00\n")
    database = folder / "database"
    database.mkdir()
    for number, one in enumerate(known):
        (database / f"{number}.json").write_text(json.dumps(one))
    command = [sys.executable, "-m", "release.audit", str(database), "--lock", str(lock)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.2", advisory(RANGE)),
        ("1.9.9", advisory(RANGE)),
        ("3.0", advisory([{"introduced": "0"}])),
        ("3.0", advisory([{"introduced": "0"}, {"last_affected": "3.0"}])),
        ("2.5", advisory([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "2.6"}])),
        ("7", advisory([], affected=[{"package": {"ecosystem": "PyPI", "name": "some.package"}, "versions": ["7"]}])),
    ],
)
def test_a_known_problem_is_found(version: str, known: dict[str, Any], tmp_path: Path) -> None:
    done = audit(tmp_path, version, known)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            f"some-package {version}: PYSEC-1 CVE-1",
            "1 packages, 1 advisories, the newest of 2026-01-02: 1 problems",
        ],
    )


def test_other_versions_and_other_packages_are_not(tmp_path: Path) -> None:
    others = [
        advisory(RANGE, withdrawn="2026-01-01T00:00:00Z"),
        advisory(RANGE, name="some-package-2"),
        advisory([{"introduced": "0"}, {"fixed": "1.9"}]),
        advisory([{"introduced": "0"}, {"last_affected": "1.8"}]),
        advisory([], affected=[{"package": {"ecosystem": "npm", "name": "some-package"}, "versions": ["1.9"]}]),
    ]
    done = audit(tmp_path, "1.9", *others)
    assert (done.returncode, done.stdout) == (0, "1 packages, 4 advisories, the newest of 2026-01-02: 0 problems\n")


def test_an_empty_directory_is_no_database(tmp_path: Path) -> None:
    assert audit(tmp_path, "1.9").returncode == 2
