"""`python -m walflow` without its imports, which are two thirds of the processor time of a short life: a process that
has them forks it. For `make test`; nightly, and pytest without `--tier`, start each as a user does.

`Warm` is a Popen. The process that has imported starts with the first of them, one for each of pytest's processes:
`python -m tests.system.warm FD`. By that socket it gets a command and descriptors. A process between waits for what
was forked, and tells its pid and its end.
"""

import array
import atexit
import gc
import json
import os
import runpy
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = [sys.executable, "-m", "walflow"]
NUMBER: Final = struct.Struct("=q")
FIRST_FREE: Final = 200  # descriptors from here on are for the moment in which they are given their numbers
IMPORTED: Final = (
    "walflow.cli.run",
    "walflow.runtime.daemon",
    "connectors.tcp",
    "connectors.file",
    "connectors.wal",
    "uvloop",
)
KNOWN: Final = {"stdin", "stdout", "stderr", "cwd", "env", "start_new_session", "pass_fds", "text", "bufsize"}

on = False  # tests/conftest.py says


class Order(NamedTuple):
    """`numbers`: what the descriptors that come with it are to be: 0, 1, 2 and those that the caller passes."""

    arguments: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    numbers: Sequence[int]
    session: bool


class Source:
    """The process that has imported. `started`: how many it has forked."""

    def __init__(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.warm", str(its.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self._socket = ours
        self.started = 0

    def fork(self, order: Order, descriptors: Sequence[int], end: int) -> None:
        data = json.dumps(order).encode()
        given = array.array("i", [*descriptors, end])
        self._socket.sendmsg([NUMBER.pack(len(data))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        for at in range(0, len(data), 1 << 15):
            self._socket.send(data[at : at + (1 << 15)])
        self.started += 1

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_source: Source | None = None


def started() -> int:
    return 0 if _source is None else _source.started


def begin() -> Source:
    """Before tests that count what is open; else with the first command."""
    global _source
    if _source is None:
        _source = Source()
        atexit.register(_source.close)
    return _source


class Warm(subprocess.Popen[Any]):
    """Of a command that begins as COMMAND."""

    def _execute_child(self, *given: Any) -> None:
        arguments, _, _, _, pass_fds, cwd, env, *_ = given
        p2cread, _, _, c2pwrite, _, errwrite = pipes = given[10:16]
        session = given[-2]
        ours, its = os.pipe()
        self._end, self._rest = ours, b""
        with open(os.devnull, "r+b") as null:
            standard = [
                number if number >= 0 else inherited if inherited >= 0 else null.fileno()
                for number, inherited in ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))
            ]
            environment = dict(os.environ if env is None else env)
            words = [os.fsdecode(word) for word in arguments[len(COMMAND) :]]
            order = Order(words, os.fspath(cwd or Path.cwd()), environment, [0, 1, 2, *pass_fds], session)
            begin().fork(order, [*standard, *pass_fds], its)
        os.close(its)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True
        self.pid = self._next()

    def _next(self) -> int:
        while len(self._rest) < NUMBER.size:
            data = os.read(self._end, NUMBER.size)
            assert data, "what was to be forked is not there"
            self._rest += data
        (number,), self._rest = NUMBER.unpack(self._rest), b""
        return int(number)

    def _internal_poll(self, _deadstate: int | None = None, **_: object) -> int | None:
        if self.returncode is None and self._ended(0):
            self._take_end()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if timeout is not None and not self._ended(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._take_end()
        assert self.returncode is not None
        return self.returncode

    def _ended(self, timeout: float) -> bool:
        return bool(select.select([self._end], [], [], timeout)[0])

    def _take_end(self) -> None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self.returncode = self._next()
                os.close(self._end)


def popen(command: Sequence[str | Path], **options: Any) -> "subprocess.Popen[Any]":
    """As subprocess.Popen, and warm where that is the same."""
    words = [os.fspath(word) for word in command]
    known = options.keys() <= KNOWN and not _is_otherwise(options.get("env"))
    warm = on and known and words[: len(COMMAND)] == COMMAND
    return (Warm if warm else subprocess.Popen)(words, **options)


def _is_otherwise(environment: Mapping[str, str] | None) -> bool:
    """What Python and its libraries read as they start."""
    return environment is not None and any(
        environment.get(name) != os.environ.get(name)
        for name in (environment.keys() | os.environ.keys())
        if name.startswith(
            ("PYTHON", "LC_", "LANG", "TZ", "HOME", "XDG", "TERM", "COLUMNS", "NO_COLOR", "FORCE", "PATH")
        )
        and not (name == "PYTHONPATH" and environment.get(name) == str(ROOT))
    )


def ran(
    command: Sequence[str | Path], *, capture_output: bool = False, check: bool = False, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """As subprocess.run."""
    given, timeout = options.pop("input", None), options.pop("timeout", None)
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        options["stdin"] = subprocess.PIPE
    with popen(command, **options) as process:
        try:
            out, err = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def said(command: Sequence[str | Path], **options: Any) -> str:
    """What it prints; it succeeds."""
    return str(ran(command, capture_output=True, text=True, check=True, **options).stdout)


# ---- the process that has imported


def main(number: int) -> None:
    gc.disable()
    for name in IMPORTED:
        __import__(name)
    gc.freeze()
    with socket.socket(fileno=number) as orders:
        order = _next_order(orders)
    if order is not None:
        gc.enable()
        sys.argv[1:] = order.arguments
        sys.orig_argv[:] = [*COMMAND, *order.arguments]  # the next process of a daemon is started so
        runpy.run_module("walflow", run_name="__main__", alter_sys=True)


def _next_order(orders: socket.socket) -> Order | None:
    """Returns in the process that carries it out; and None at the end."""
    while True:
        data, given, _, _ = orders.recvmsg(NUMBER.size, socket.CMSG_SPACE(64 * 4))
        if not data:
            while True:
                try:
                    os.wait()
                except ChildProcessError:
                    return None
        size = NUMBER.unpack(data)[0]
        text = b""
        while len(text) < size:
            text += orders.recv(1 << 16)
        descriptors = array.array("i")
        for _, _, part in given:
            descriptors.frombytes(part)
        if os.fork() == 0:
            order = Order(*json.loads(text))
            orders.close()
            *its, end = descriptors
            pid = os.fork()
            if pid == 0:
                os.close(end)
                _become(order, its)
                return order
            for each in its:
                os.close(each)
            os.write(end, NUMBER.pack(pid))
            _, status = os.waitpid(pid, 0)
            os.write(end, NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os._exit(0)
        for each in descriptors:
            os.close(each)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _become(order: Order, descriptors: Sequence[int]) -> None:
    if order.session:
        os.setsid()
    for at, each in enumerate(descriptors):
        os.dup2(each, FIRST_FREE + at)
        os.close(each)
    for at, number in enumerate(order.numbers):
        os.dup2(FIRST_FREE + at, number)
        os.close(FIRST_FREE + at)
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.path[0] = order.cwd
    time.tzset()
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]  # noqa: SIM115
        1, "w", encoding="utf-8", closefd=False, buffering=1 if os.isatty(1) else -1
    )
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
