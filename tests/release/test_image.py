"""The image, built and run here: as a user of its own, with a root that is read-only,
and with a health check that tells."""

from collections.abc import Iterator

import pytest

from tests.release import engine

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(engine.absent() is not None, reason=str(engine.absent())),
]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[engine.Engine]:
    with engine.Engine(tmp_path_factory.mktemp("image")) as one:
        yield one


def test_it_runs_with_a_root_that_is_read_only(podman: engine.Engine) -> None:
    with podman.running():
        podman.until("healthy")
        assert "uid=9898(walflow)" in podman.inside("id")[1]
        for place in ("/", "/tmp", "/opt/walflow", "/etc/walflow"):
            code, said = podman.inside("touch", f"{place}/x")
            assert code != 0, place
            assert "Read-only file system" in said
        assert podman.inside("python", "-c", engine.ECHO) == (0, '{"hello": "world"}\n')
        podman.run("stop", "--time", "60", "one")
        assert podman.run("inspect", "--format", "{{.State.ExitCode}}", "one") == "0\n"
    with podman.running():  # on the same volume
        podman.until("healthy")
        assert podman.inside("cat", "server_out.log")[1].count('{"hello": "world"}') == 1


def test_the_health_check_tells(podman: engine.Engine) -> None:
    with podman.running():
        podman.until("healthy")
        podman.run("kill", "--signal", "STOP", "one")
        podman.until("unhealthy")
        podman.run("kill", "--signal", "CONT", "one")
        podman.until("healthy")
