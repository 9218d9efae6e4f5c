"""The compiled grammar is kept in the user's cache.
Whatever is wrong with the cache, a flow file is read all the same."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.late import late

pytestmark = pytest.mark.test

ROOT = Path(__file__).parents[2]
FLOW = ROOT / "flows" / "echo" / "server.troy"


class Planted:
    """A pickle that does as it likes when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.mark),)


READ = "from walflow.lang import load; assert load([{!r}])[1] == []"


def read(cache: Path) -> "subprocess.CompletedProcess[str]":
    """As every command does that is given a flow file."""
    return run("-c", READ.format(str(FLOW)), XDG_CACHE_HOME=str(cache))


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def once_built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    assert read(cache).returncode == 0
    return cache / "walflow"


@pytest.fixture
def cache(tmp_path: Path, once_built: Path) -> Path:
    shutil.copytree(once_built, tmp_path / "walflow")
    return tmp_path


def tables(cache: Path) -> Path:
    """Where it is kept."""
    (kept,) = (cache / "walflow").iterdir()
    return kept


@pytest.mark.parametrize("home", ["/dev/null", *late("/nonexistent/home", "/" + "x" * 300, "relative", "")])
def test_a_home_in_which_nothing_can_be_kept(home: str) -> None:
    done = run("-m", "walflow", "check", str(FLOW), HOME=home, XDG_CACHE_HOME="")
    assert (done.returncode, done.stderr) == (0, "")


def in_a_file(kept: Path) -> None:
    kept.write_bytes(b"garbage")


def empty(kept: Path) -> None:
    kept.write_bytes(b"")


def a_value(kept: Path) -> None:
    kept.write_bytes(pickle.dumps({"data": 1, "memo": 2}))


def a_fifo(kept: Path) -> None:
    kept.unlink()
    os.mkfifo(kept)


def a_directory(kept: Path) -> None:
    kept.unlink()
    kept.mkdir()
    (kept / "file").touch()


def a_device(kept: Path) -> None:
    kept.unlink()
    kept.symlink_to("/dev/zero")


def a_loop(kept: Path) -> None:
    kept.unlink()
    kept.symlink_to(kept)


def a_file_in_place_of_the_directory(kept: Path) -> None:
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("")


def closed(kept: Path) -> None:
    kept.chmod(0)
    kept.parent.chmod(0o500)


@pytest.mark.parametrize(
    "damage",
    [
        *(in_a_file, a_fifo),
        *late(empty, a_value, a_directory, a_device, a_loop, a_file_in_place_of_the_directory, closed),
    ],
)
def test_what_lies_in_its_place_does_not_matter(cache: Path, damage: Callable[[Path], None]) -> None:
    damage(tables(cache))
    done = read(cache)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_read_back(cache: Path) -> None:
    mark = cache / "mark"
    tables(cache).write_bytes(pickle.dumps(Planted(mark)))
    read(cache)
    assert mark.exists()  # so the next test can fail


@pytest.mark.parametrize("others_may_write", ["the file", *late("the directory", "where a link leads")])
def test_what_another_user_may_have_written_is_not_loaded(cache: Path, others_may_write: str) -> None:
    kept, mark = tables(cache), cache / "mark"
    kept.write_bytes(pickle.dumps(Planted(mark)))
    if others_may_write == "the file":
        kept.chmod(0o666)
    elif others_may_write == "the directory":
        kept.parent.chmod(0o1777)
    else:
        elsewhere = cache / "open"
        elsewhere.mkdir(mode=0o777)
        kept.rename(elsewhere / "tables")
        kept.symlink_to(elsewhere / "tables")
    done = read(cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert not mark.exists()


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files fails as it does, in the middle of a write."""
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    limit += "; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    done = run("-B", "-c", limit + READ.format(str(FLOW)), XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "walflow").iterdir()) == []
