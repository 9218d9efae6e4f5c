"""The supervisor of a driver process; an interpreter that only plays Spark stands in for the slow one."""

import asyncio
import os
import re
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from connectors.spark.config import SparkConfig
from connectors.spark.job.driver import Driver
from tests.waiting import until
from walflow.net import Address
from walflow.testing import Fatal, MemoryOutlet, VirtualScheduler

pytestmark = pytest.mark.test  # uvloop starts the interpreter, which tests/tiers.py does not see

FAKE = Path(__file__).with_name("fake_python.py")


def config(tmp_path: Path, **more: object) -> SparkConfig:
    return SparkConfig.model_validate(
        {
            "path": str(tmp_path / "log"),
            "query": "select value from in",
            "python": str(FAKE),
            "environment": ["FAKE*"],
            **more,
        }
    )


def driver(config: SparkConfig, out: MemoryOutlet) -> Driver:
    return Driver(config, out, Address("127.0.0.1", 7700), str(Path(config.path, "token")), "uuid")


@asynccontextmanager
async def supervised(config: SparkConfig, out: MemoryOutlet) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.ensure_future(driver(config, out).run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def logged(out: MemoryOutlet, event: str, times: int = 1) -> list[dict[str, object]]:
    def found() -> list[dict[str, object]]:
        return [dict(entry) for entry in out.logged if entry["event"] == event]

    await until(lambda: len(found()) >= times)
    return found()


def exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def child_of(out: MemoryOutlet) -> int:
    def told() -> list[str]:
        return [str(entry["line"]) for entry in out.logged if str(entry.get("line", "")).startswith("child ")]

    await until(told)
    return int(told()[0].split()[1])


@pytest.fixture
def out() -> MemoryOutlet:
    return MemoryOutlet(VirtualScheduler())


async def test_what_dies_is_started_again_and_its_batches_are_counted(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "dies")
    async with supervised(config(tmp_path), out):
        failed = await logged(out, "spark failed", 2)
        assert failed[0]["error"] == "the driver ended with exit code 3: MemoryError: no more"
        assert failed[0]["level"] == "error"
        assert out.counters["spark_restarts_total"].value >= 1
        assert out.counters["spark_input_rows_total"].value >= 20
        assert out.counters["spark_late_rows_total"].value >= 2
        assert out.gauges["spark_running"]() == 0
        assert re.fullmatch(r"Spark starts, \d+ s again: the driver ended with .*", out.explained())
        assert out.gauges["spark_state_rows"]() == 3
        assert out.gauges["spark_input_rows_per_second"]() == 20
        assert sum(out.histograms["spark_batch_seconds"].counts) >= 2


async def test_a_stop_lets_the_batch_end_and_leaves_no_process(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "runs")
    async with supervised(config(tmp_path), out):
        child = await child_of(out)
        assert out.gauges["spark_running"]() == 1
        assert out.explained() == ""
    told = {entry.get("line"): entry["level"] for entry in out.logged}
    assert told["ended well"] == "info"
    assert told["Shell: Interrupted while joining"] == "debug"
    assert not exists(child)


async def test_one_that_does_not_stop_is_killed_with_its_jvm_after_its_grace_time(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "deaf")
    async with supervised(config(tmp_path, stop_grace=100_000_000), out):
        child = await child_of(out)
        (starting,) = await logged(out, "spark starting")
    assert not exists(child)
    assert not exists(int(str(starting["pid"])))


async def test_a_driver_that_is_killed_takes_its_jvm_along_and_is_started_again(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "runs")
    async with supervised(config(tmp_path), out):
        child = await child_of(out)
        (starting,) = await logged(out, "spark starting")
        os.kill(int(str(starting["pid"])), signal.SIGKILL)
        assert (await logged(out, "spark failed"))[0]["error"] == "the driver was killed by signal 9"
        assert not exists(child)
        await logged(out, "spark running", 2)


async def test_a_query_that_was_never_sound_ends_the_daemon_with_sparks_words_and_caret(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "refuses")
    with pytest.raises(Fatal, match=r"^test::source: \[PARSE\] at 'whre': spell it$"):
        await driver(config(tmp_path), out).run()
    assert [line for line in out.lines if line.startswith("|")] == ["|  whre x", "|  ^^^^"]


async def test_a_jvm_that_refuses_its_settings_ends_the_daemon_with_its_words(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "no-jvm")
    with pytest.raises(
        Fatal, match=r"Spark's JVM does not start: Executor memory must be a number: it stands in `conf`"
    ):
        await driver(config(tmp_path), out).run()


async def test_what_has_run_is_tried_again_even_when_it_is_refused(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "refuses-later")
    monkeypatch.setenv("FAKE_COUNTER", str(tmp_path / "counter"))
    async with supervised(config(tmp_path), out):
        failed = await logged(out, "spark failed", 3)
        assert [entry["error"] for entry in failed[1:]] == ["[TABLE] gone", "[TABLE] gone"]


async def test_a_driver_that_ends_without_a_word_is_no_end_of_the_daemon(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "silent")
    async with supervised(config(tmp_path), out):
        assert (await logged(out, "spark failed"))[0]["error"] == "the driver ended with exit code 5"


async def test_a_query_whose_rows_go_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match="nothing is linked to its `out`"):
        await driver(config(tmp_path), MemoryOutlet(VirtualScheduler(), linked=False)).run()


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path, out: MemoryOutlet) -> None:
    with pytest.raises(Fatal, match=r"python = '/no/such/python' cannot be run: No such file"):
        await driver(config(tmp_path, python="/no/such/python"), out).run()


async def test_the_driver_gets_what_spark_reads_and_what_the_flow_names_and_no_secret(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "FAKE": "runs",
        "SPARK_TOKEN": "sesame",
        "OTHER_TOKEN": "sesame",
        "SPARK_CONF_DIR": "/conf",
        "LC_ALL": "C.UTF-8",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    async with supervised_with(config(tmp_path, token={"env": "SPARK_TOKEN"}), out):
        await child_of(out)
        (starting,) = await logged(out, "spark starting")
        pid = int(str(starting["pid"]))
        check_secrecy(pid, "sesame")
        seen = environment_of(pid)
    assert (seen[b"FAKE"], seen[b"SPARK_CONF_DIR"], seen[b"LC_ALL"]) == (b"runs", b"/conf", b"C.UTF-8")
    assert seen[b"HOME"] == os.fsencode(os.environ["HOME"])
    assert b"PYTEST_CURRENT_TEST" not in seen


async def test_the_token_is_in_a_file_of_its_own_and_nowhere_else(
    tmp_path: Path, out: MemoryOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "runs")
    given = config(tmp_path, token={"text": "sesame"})
    async with supervised_with(given, out):
        await child_of(out)
        (starting,) = await logged(out, "spark starting")
        check_secrecy(int(str(starting["pid"])), "sesame")
    assert "sesame" not in str(out.logged)


def environment_of(pid: int) -> dict[bytes, bytes]:
    parts = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return {name: value for name, _, value in (part.partition(b"=") for part in parts if part)}


def check_secrecy(pid: int, token: str) -> None:
    seen = Path(f"/proc/{pid}/environ").read_bytes()
    named = next(part for part in seen.split(b"\0") if part.startswith(b"WALFLOW_TOKEN_FILE="))
    file = Path(os.fsdecode(named.split(b"=", 1)[1]))
    assert file.read_text() == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.encode() not in seen + Path(f"/proc/{pid}/cmdline").read_bytes()


@asynccontextmanager
async def supervised_with(config: SparkConfig, out: MemoryOutlet) -> AsyncIterator[None]:
    """The token stands in the flow and in no file."""
    task = asyncio.ensure_future(Driver(config, out, Address("127.0.0.1", 7700), "", "uuid").run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
