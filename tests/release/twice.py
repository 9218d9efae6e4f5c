"""The whole release, made twice from clean clones of this commit, compared, signed and verified:
`python -m tests.release.twice`.

It takes half an hour, for each clone has an environment of its own and makes four packages for Debian."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import sums
from tests.system.daemon import ROOT

VERSION = "0.1.0"


def made(clone: Path, key: Path) -> Path:
    """By the documented command. Without what the caller's `make` and environment say."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["git", "checkout", "--quiet", commit.strip()], cwd=clone, check=True)
    command = ["env", "--unset=MAKEFLAGS", "--unset=MAKELEVEL", "--unset=VIRTUAL_ENV"]
    command += ["make", "release", f"VERSION={VERSION}", f"KEY={key}"]
    subprocess.run(command, cwd=clone, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
    shutil.rmtree(clone / ".venv")
    return clone / "dist"


def compared(folder: Path) -> list[str]:
    """What was compared: the lines of SHA256SUMS. Raises AssertionError or CalledProcessError."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    first, second = (made(folder / name, key) for name in ("first", "second"))
    for dist in (first, second):
        allowed = f'release namespaces="{sums.NAMESPACE}" {key.with_suffix(".pub").read_text()}'
        (dist / "allowed_signers").write_text(allowed)
        subprocess.run(["sh", "-c", sums.VERIFY], cwd=dist, stdout=sys.stderr, check=True)
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    assert [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()] == []
    return (second / "SHA256SUMS").read_text("utf-8").splitlines()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for line in compared(Path(folder)):
            print(line)  # noqa: T201
    print("the same bytes twice, and the signature of both is good")  # noqa: T201


if __name__ == "__main__":
    main()
