"""What an install without extras takes, and how long a start: `python -m tests.release.sizes` prints a table."""

import compileall
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from release import tree, wheels

NOT_OURS: Final = ("pip", "setuptools", "pkg_resources", "_distutils", "distutils")
"""What `python -m venv` puts there."""
STARTS: Final = 20


def installed(wheel: Path, place: Path) -> Path:
    """An environment with nothing else in it, and without bytecode."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = str(place / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", str(wheel)], check=True, timeout=1200)
    return place


def compiled(environment: Path) -> None:
    """As `pip install` does, unless it is told not to."""
    (packages,) = environment.glob("lib/*/site-packages")
    compileall.compile_dir(packages, quiet=2)


def taken(environment: Path, bytecode: bool) -> int:
    """Bytes of all files, without what each environment has."""
    (packages,) = environment.glob("lib/*/site-packages")
    own = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    files = [file for path in own for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files if bytecode or file.suffix != ".pyc")


def shortest(*command: str) -> float:
    """Seconds of the shortest of some starts."""
    took = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - begin)
    return min(took)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = wheels.build(tree.export(Path(folder) / "tree", "0.1.0"), Path(folder))
        wheel = next(path for path in made if path.suffix == ".whl")
        core = installed(wheel, Path(folder) / "core")
        print(f"{wheel.stat().st_size / 1e6:8.1f} MB  the wheel")  # noqa: T201
        print(f"{taken(core, False) / 1e6:8.1f} MB  installed, without bytecode")  # noqa: T201
        compiled(core)
        print(f"{taken(core, True) / 1e6:8.1f} MB  installed, with bytecode")  # noqa: T201
        for words in (["python", "-c", "pass"], ["walflow", "--version"], ["walflow", "--help"]):
            took = shortest(str(core / "bin" / words[0]), *words[1:])
            print(f"{took * 1000:8.0f} ms  {' '.join(words)}")  # noqa: T201


if __name__ == "__main__":
    main()
