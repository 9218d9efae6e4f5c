"""Runs in a copy of the source, with pytest imported once, and forks for every mutant. It reads a request per line
and answers each with a line.

    {"mark": key, "module": name, "tests": [node ids], "limits": {node id: seconds}}    in
    {"red": node id} or {"green": number of tests} or {"wrong": why}                       out

A test that takes longer than its limit counts as red: a hang is a way to be noticed."""

import gc
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import aiohttp  # noqa: F401  # what the tests import and no mutant changes is imported once, here
import coverage  # noqa: F401
import google_crc32c  # noqa: F401
import msgspec  # noqa: F401
import orjson  # noqa: F401
import prometheus_client  # noqa: F401
import pydantic  # noqa: F401
import pytest
import pytest_asyncio  # noqa: F401
import rich.progress  # noqa: F401
import structlog  # noqa: F401
import typer.testing  # noqa: F401
import uvloop  # noqa: F401
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.reach import bound

QUIET: Final = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-o", "timeout=0")


class Teller:
    """Says in the pipe what is being run, and how it ended."""

    def __init__(self, pipe: int, mark: str, module: str) -> None:
        self._pipe = pipe
        self._mark = mark
        self._module = module
        self._red = ""
        self._done = 0

    def tell(self, word: str, what: object = "") -> None:
        os.write(self._pipe, json.dumps([word, what]).encode() + b"\n")

    def pytest_collection(self) -> None:
        """Behind the profile that the conftest loads: nothing found before is tried again, nothing found is made
        smaller."""
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors]
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutation", database=None, derandomize=True, phases=phases, deadline=None, suppress_health_check=checks
        )
        settings.load_profile("mutation")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell("start", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._red:
            self._red = report.nodeid
            self.tell("red", report.nodeid)
        self._done += report.when == "call"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self._red:
            self._red = report.nodeid
            self.tell("red", report.nodeid or "collection")

    def pytest_sessionfinish(self) -> None:
        if self._red:
            return
        found = getattr(sys.modules.get(self._module), "__mutant__", None)
        if self._mark and found != self._mark:
            self.tell("wrong", f"{self._module} was not the one of this mutant: {found}")
        elif not self._done:
            self.tell("wrong", "no test was run")
        else:
            self.tell("green", self._done)


def serve() -> None:
    gc.freeze()
    while line := sys.stdin.readline():
        request = json.loads(line)
        try:
            os.write(1, json.dumps(_answer(request)).encode() + b"\n")
        except BrokenPipeError:  # who asked was killed
            return


def _answer(request: dict[str, object]) -> dict[str, object]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(request, writing)
    os.close(writing)
    try:
        return _watch(child, reading, request["limits"])
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run(request: dict[str, object], pipe: int) -> None:
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    output = os.open("last-run.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream, instead in enumerate((quiet, output, output)):
        os.dup2(instead, stream)
    bound()
    teller = Teller(pipe, str(request["mark"]), str(request["module"]))
    code = 1
    try:
        tests = request["tests"]
        assert isinstance(tests, list)
        code = int(pytest.main([*QUIET, f"--basetemp={Path.cwd()}/tmp", *tests], plugins=[teller]))
    except BaseException as error:  # noqa: BLE001  # whatever it is, a mutant did it
        teller.tell("red", f"pytest ends with {error!r}")
    os._exit(code)


def _watch(child: int, pipe: int, limits: object) -> dict[str, object]:
    assert isinstance(limits, dict)
    test, until, data = "collection", time.monotonic() + 60, b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0, until - time.monotonic()))
        if not ready:
            return {"red": test, "hangs": True}
        more = os.read(pipe, 1 << 16)
        if not more:
            return {"red": test, "dies": True}
        data += more
        *lines, data = data.split(b"\n")
        for line in lines:
            word, what = json.loads(line)
            if word != "start":
                return {word: what}
            test, until = what, time.monotonic() + limits.get(what, 60)


if __name__ == "__main__":
    serve()
