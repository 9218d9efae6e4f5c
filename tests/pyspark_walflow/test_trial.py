"""What `walflow test --engine spark` gives to Spark."""

from pathlib import Path

from pyspark_walflow.trial import write_batches


def test_each_batch_has_a_time_of_its_own_however_quickly_it_was_written(tmp_path: Path) -> None:
    write_batches([[[0, "in", position, 1, None, "{}"]] for position in range(20)], tmp_path / "given")
    files = sorted((tmp_path / "given").iterdir())
    seconds = [int(file.stat().st_mtime) for file in files]
    assert len(files) == 20
    assert seconds == sorted(set(seconds))
