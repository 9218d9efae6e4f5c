"""The stories that are cut at every operation reach every branch of the engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]

# they look into a log, repair one or make one, while nobody uses it; they have tests of their own. The file of
# Spark's consumers is cut in tests/connectors/spark/test_consumers.py.
TOOLS = ("range_reader.py", "consumer_file.py", "tools/*", "tools/inspect/*")

LANES = {
    "cursor.py": ("Checkpoint.flush",),
    "marks.py": ("Mark.__repr__", "Mark.behind", "Marks.part"),
}
ROWS = {
    "arrivals.py": (
        *("UpstreamPositions.__repr__", "UpstreamPositions.total", "UpstreamPositions.read", "UpstreamPositions.add"),
        *("UpstreamPositions.runs", "UpstreamPositions.settled", "UpstreamPositions.forget_below"),
        *("UpstreamPositions.forget", "UpstreamPositions.grown", "UpstreamPositions.save", "UpstreamPositions.make"),
        *("UpstreamPositions._key", "UpstreamPositions._shed", "UpstreamPositions.cover"),
    ),
    "slot_file.py": ("SlotFile.read", "SlotFile.remove", "SlotFile._make", "pack", "unpack"),
    "log.py": ("Log.term", "Log.remember_arrivals", "Log.checkpoint", "_first"),
}
TRAIL = {
    "trail.py": (
        *(
            "ToldRanges.holds",
            "Trail.__repr__",
            "Trail.missing",
            "Trail.read",
            "Trail.told",
            "Trail.runs",
            "Trail.rename",
        ),
        *("Trail.rename", "Trail._add", "Trail._stored"),
    ),
    "log.py": ("Log._read_trail",),
}
COLD = {
    "cache.py": ("Cache.__contains__",),
    "scans.py": ("Scans.of",),
    "reader.py": (
        *("Fetch.__init__", "Fetch.run", "Fetch._is_read", "Fetch._is_read_in_part", "Reader.fetched"),
        *("Reader.cold", "Reader._is_cached", "Reader._spans"),
    ),
}
# one process, one clock, and a disk that fails by ENOSPC or cuts the power
LOCKS = ("Directory._take", "Directory.check_place", "Directory.check_lock")
CLOCKS = ("LogTime.__repr__", "LogTime.stamp")
BAD_READS = {
    "chunk.py": ("Pages.read", "Pages._page"),
    "log.py": ("Log._start",),
    "reader.py": ("Reader._lost",),
}
UNREACHED = {
    # the power is cut in tests/proof/arrived.py and tests/delivery/test_arriving_model.py, which have two logs in a
    # row
    **{(file, place): "two logs" for file, places in ROWS.items() for place in places},
    # what few lanes meet: the power is cut in tests/wal/test_mark_file.py, and tests/delivery/test_lanes_model.py has
    # more of them
    **{(file, place): "lanes" for file, places in LANES.items() for place in places},
    # sinks and flows that change, more than there is room for, a file that cannot be read: the power is cut in
    # tests/wal/test_trail.py
    **{(file, place): "trail" for file, places in TRAIL.items() for place in places},
    # asked by a lane alone, before it reads, and changes nothing on the disk: tests/wal/test_reader.py,
    # test_bad_pages.py, tests/delivery/test_lane_disk.py
    **{(file, place): "cold" for file, places in COLD.items() for place in places},
    **{("directory.py", place): "two processes: tests/wal/test_lock.py" for place in LOCKS},
    **{
        ("log_time.py", place): "a clock that is set: tests/wal/test_log_time.py, tests/delivery/test_clock.py"
        for place in CLOCKS
    },
    # a disk that cannot read: tests/wal/test_bad_pages.py, test_repair.py, tests/delivery/test_lane_disk.py
    **{(file, place): "EIO" for file, places in BAD_READS.items() for place in places},
    ("chunk.py", "Chunk.reserve"): "half an allocation, and then none: tests/wal/test_full_disk.py",
    (
        "walk.py",
        "pass_sound",
    ): "for a reader of a range that begins in a chunk's middle: tests/wal/test_range_reader.py",
    ("history.py", "LogHistory._ends"): "a chunk whose first record is damaged: tests/wal/test_history.py",
    ("log.py", "Log.path"): "asked by sinks with a frontier: tests/system/test_sqlite.py",
    ("log.py", "Log.spans"): "asked by sinks with a frontier: tests/system/test_sqlite.py",
    ("log.py", "Log.pending"): "what a full disk gives to another output: tests/faults/test_roundrobin_full.py",
    ("slot_file.py", "newest"): "for tools, which do not write: tests/cli/test_wal_marks.py",
    ("log.py", "Log.newest"): "asked by the daemon alone, at a start: tests/delivery/test_recalled_events.py",
    (
        "log.py",
        "Log._give_up",
    ): "positions that a start skipped, in a chunk that is dropped: tests/delivery/test_measures_model.py",
    (
        "directory.py",
        "Directory.open_to_read",
    ): "the disk of the stories opens what is there: tests/wal/test_reader.py, test_eio.py",
}


@pytest.mark.nightly
def test_every_branch_of_the_engine_is_reached(tmp_path: Path) -> None:
    data, report = str(tmp_path / "data"), tmp_path / "report.json"
    coverage = [sys.executable, "-m", "coverage"]
    watch = ["--rcfile=/dev/null", "--branch", "--source=walflow.wal", f"--data-file={data}"]
    subprocess.run([*coverage, "run", *watch, "-m", "tests.proof.reach"], cwd=HERE, check=True)
    left_out = ",".join(f"*/walflow/wal/{tool}" for tool in TOOLS)
    output = ["json", "--rcfile=/dev/null", f"--data-file={data}", "-o", str(report), f"--omit={left_out}"]
    subprocess.run([*coverage, *output], cwd=HERE, check=True, capture_output=True)
    missed = {
        (Path(path).name, function or "at import"): (found["missing_lines"], found["missing_branches"])
        for path, file in json.loads(report.read_bytes())["files"].items()
        for function, found in file["functions"].items()
        if found["missing_lines"] or found["missing_branches"]
    }
    assert missed.keys() == UNREACHED.keys(), {place: missed[place] for place in missed.keys() - UNREACHED.keys()}
