"""The unit and the image, as far as can be told without booting either."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.admin import Admin
from tests.system.daemon import ROOT, WALFLOW, echo_flow, running
from tests.system.warm import ran

UNIT = ROOT / "packaging" / "walflow.service"
INSTALLED = "/opt/walflow/bin/walflow"


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here: apt-get install systemd")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "walflow"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "walflow.service"
    unit.write_text(UNIT.read_text().replace(INSTALLED, str(program)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if "walflow" in line]
    assert (verified.returncode, ours) == (0, [])


def test_the_unit_is_what_the_how_to_says() -> None:
    unit = settings()
    for key, value in {
        "Type": "notify",
        "NotifyAccess": "all",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "DynamicUser": "yes",
        "StateDirectory": "walflow",
        "WatchdogSec": "30",
        "RestartPreventExitStatus": "2 78",
    }.items():
        assert unit[key] == [value]
    assert {"MemoryMax", "LimitNOFILE", "ExecStartPre", "ExecReload", "TimeoutStopSec"} <= unit.keys()


@pytest.mark.parametrize("key", ["ExecStart", "ExecStartPre", "ExecReload"])
def test_the_units_commands_are_commands_of_ours(tmp_path: Path, key: str) -> None:
    for command in settings()[key]:
        program, verb, *_ = shlex.split(command)
        assert program == INSTALLED
        helped = ran([*WALFLOW, verb, "--help"], capture_output=True, text=True, check=True)
        assert all(word in helped.stdout for word in shlex.split(command) if word.startswith("--"))


def test_the_check_before_the_start_lets_a_sound_flow_pass(tmp_path: Path) -> None:
    arguments = [str(echo_flow(tmp_path)) if word.endswith(".troy") else word for word in _words("ExecStartPre")]
    arguments = [str(tmp_path) if word == "/var/lib/walflow" else word for word in arguments]
    ran([*WALFLOW, *arguments[1:]], capture_output=True, check=True, cwd=ROOT)


def _words(key: str) -> list[str]:
    return shlex.split(settings()[key][0])


# The image


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def test_two_stages_of_one_base_and_the_second_runs_as_nobody() -> None:
    build, last = of("FROM")
    assert build.removesuffix(" AS build") == last  # the virtual environment points to its Python
    begins = [at for at, (word, _) in enumerate(instructions()) if word == "FROM"][1]
    words = [word for word, _ in instructions()[begins:]]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert of("USER") == ["9898:9898"]
    assert of("STOPSIGNAL") == ["SIGTERM"]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    for copied in of("COPY"):
        *sources, _ = copied.split()
        if sources[0].startswith("--from=build"):
            continue
        for source in sources:
            assert (ROOT / source).exists()
            assert source.split("/")[0] in kept


def test_what_the_wheel_is_made_of_is_copied() -> None:
    copied = {source for each in of("COPY") for source in each.split()[:-1]}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "walflow",
        "connectors",
        "pyspark_walflow",
        "walflow_kernel",
    } <= copied


def test_the_health_check_tells_a_running_daemon_from_none(tmp_path: Path) -> None:
    (check,) = of("HEALTHCHECK")
    command: list[str] = json.loads(check.partition("CMD ")[2])
    assert command[0] == "walflow"
    address = f"unix:{tmp_path}/admin.sock"  # port 9898 may be anybody's here

    def health() -> int:
        environment = {**os.environ, "WALFLOW_ADMIN": address}
        return ran([*WALFLOW, *command[1:]], capture_output=True, cwd=ROOT, env=environment, check=False).returncode

    assert health() != 0
    with running(echo_flow(tmp_path), tmp_path, admin=address) as daemon:
        Admin(daemon).until_ready()
        assert health() == 0
        assert daemon.terminate() == 0
    assert health() != 0


def test_the_flow_that_runs_by_default_is_sound(tmp_path: Path) -> None:
    verb, path = json.loads(of("CMD")[0])
    (source,) = [each.split()[0] for each in of("COPY") if each.split()[-1] == os.path.dirname(path)]
    assert verb == "run"
    flow = ROOT / source / os.path.basename(path)
    ran([*WALFLOW, "check", str(flow), "--workdir", str(tmp_path)], capture_output=True, check=True, cwd=ROOT)
