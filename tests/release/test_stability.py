"""docs/reference/stability.md: each of its sentences is held by a test."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import walflow
import walflow.net
from tests.release.golden.make import EVENTS, FLOW
from tests.system.daemon import ROOT, WALFLOW, running
from tests.wal.tools import files_of
from walflow.wal.format import CHECKSUM, META, META_MAGIC, crc

TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "reference" / "stability.md"
GOLDEN = FLOW.parent
MADE = "docs/test_pages.py::test_a_page_is_up_to_date"

# What a sentence begins with: the tests that would fail if it were not so.
HELD = {
    "Every later version opens the directories": [
        "release/test_golden.py::test_every_later_version_goes_on_from_it",
        "release/test_golden.py::test_there_is_one_of_each_release",
        "wal/test_golden.py::test_a_start_finds_what_it_found_then",
    ],
    "A version that does not know a newer format of a log": [
        "release/test_stability.py::test_a_daemon_leaves_a_newer_log_alone",
        "cli/test_wal.py::test_a_newer_version_is_left_to_the_newer_version",
    ],
    "A version that does not know a newer sidecar": [
        "connectors/test_file_append.py::test_a_newer_walflows_sidecar_is_left_alone"
    ],
    "A log whose sinks have changed": [
        "delivery/test_lane_marks.py::test_lanes_that_other_links_part_go_on_from_what_both_had",
        "wal/test_golden.py::test_a_lane_goes_on_from_the_mark_that_it_had_then",
    ],
    "`walflow reload` hands": [
        "system/test_reload_versions.py::test_what_each_release_has_said_is_understood",
        "system/test_reload_versions.py::test_this_version_says_what_is_recorded_of_it",
    ],
    "Lines of `walflow wal export`": ["release/test_stability.py::test_lines_of_each_release_are_imported"],
    "`walflow check` of the new version": ["cli/test_check.py::test_exit_codes"],
    "What a user notices": ["test_changelog.py::test_all_are_in_the_next_release"],
    "The format of a log": [
        "wal/test_format_page.py::test_it_reads_the_golden_directories",
        "wal/test_format_page.py::test_it_reads_what_is_written_today",
    ],
    "The language": ["language/test_language.py::test_case"],
    "Keys of [connectors]": [MADE],
    "[Metrics]": ["admin/test_metrics.py::test_a_connector_declares_what_it_counts"],
    "[Exit codes]": ["admin/test_exit_codes.py::test_the_page_has_every_code_and_no_other"],
    "The [admin API]": ["admin/test_api_document.py::test_the_page_names_each_path"],
    "What a connector sees": ["release/test_stability.py::test_connectors_see_what_they_saw"],
}


def sentences() -> list[str]:
    lists = PAGE.read_text("utf-8").split("## Back")[0]
    return [" ".join(one.split()) for one in re.findall(r"^- (.*(?:\n  .*)*)", lists, re.MULTILINE)]


@pytest.mark.parametrize("sentence", sentences())
def test_a_sentence_is_held(sentence: str) -> None:
    assert len([beginning for beginning in HELD if sentence.startswith(beginning)]) == 1


def test_no_entry_is_left_over() -> None:
    assert [one for one in HELD if not any(said.startswith(one) for said in sentences())] == []


@pytest.mark.parametrize("name", sorted({name for names in HELD.values() for name in names}))
def test_the_test_that_holds_it_exists(name: str) -> None:
    file, _, function = name.partition("::")
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_daemon_leaves_a_newer_log_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(GOLDEN / "0.1.0" / "stopped" / "log", log)
    fields = META.pack(META_MAGIC, 3, 0, bytes(16), 0)
    (log / "meta").write_bytes(fields + CHECKSUM.pack(crc(0, fields)))
    before = files_of(str(log))
    with running(FLOW, tmp_path) as daemon:
        assert daemon.wait() == 74
    assert any("written by a newer walflow" in line for line in daemon.raw)
    assert {name: data for name, data in files_of(str(log)).items() if name != "LOCK"} == before


@pytest.mark.parametrize("lines", sorted(GOLDEN.glob("*/export.jsonl")), ids=lambda path: path.parent.name)
def test_lines_of_each_release_are_imported(lines: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with lines.open("rb") as source:
        subprocess.run(
            [*WALFLOW, "wal", "import", str(log)], stdin=source, capture_output=True, check=True, timeout=100
        )
    command = [*WALFLOW, "wal", "dump", str(log)]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    assert dumped.count('"rest":"r') == EVENTS


def test_connectors_see_what_they_saw() -> None:
    """A name that goes before 1.0 goes from this list too, and into the changelog."""
    known = set((GOLDEN / "names.txt").read_text("utf-8").split())
    there = {f"{module.__name__}.{name}" for module in (walflow, walflow.net) for name in module.__all__}
    assert known <= there
