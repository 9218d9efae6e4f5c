"""The page of the bare Debian is what happens there; on the next Debian the package is installed, used and purged."""

from pathlib import Path

import pytest

from release import debian, tree, wheels
from tests.release import machine
from tests.release.bare import ECHO, PAGE, session

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(machine.absent() is not None, reason=str(machine.absent())),
]


@pytest.mark.alone  # of its minutes, one is judged: from `apt-get install` to an echo
def test_the_page_is_what_happens(tmp_path: Path) -> None:
    assert session(tmp_path) == PAGE.read_text("utf-8")


def test_debian_13(tmp_path: Path) -> None:
    of = tree.export(tmp_path / "tree", "0.1.0")
    *_, wheel = sorted(wheels.build(of, tmp_path), key=lambda path: path.suffix)
    package = debian.build(of, wheel, tmp_path, debian.SUITES[1], "amd64")
    with machine.Machine(tmp_path, "trixie") as one:
        (one.root / "root" / package.name).write_bytes(package.read_bytes())
        assert one.run("cut -d . -f 1 /etc/debian_version") == "13\n"
        one.run(f"apt-get install --yes --no-install-recommends ./{package.name}")
        assert one.run(ECHO) == '{"hello": "world"}\n'
        assert one.run("walflow --version; walflow status --ready") == "walflow 0.1.0\nready\n"
        one.run("apt-get purge --yes walflow")
        assert one.run("ls -d /opt/walflow /var/lib/walflow 2> /dev/null") == "/var/lib/walflow\n"
