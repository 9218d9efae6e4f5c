"""`python -m release VERSION`: all files of a release, in dist/."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from release import chart, debian, image, sums, tree, wheels


def main(
    version: Annotated[str, typer.Argument(help="As 0.1.0.")],
    into: Annotated[Path, typer.Option(help="A folder, which is emptied.")] = tree.ROOT / "dist",
    revision: Annotated[str, typer.Option(help="The commit.")] = "HEAD",
    key: Annotated[
        Path | None, typer.Option(help="The key of OpenSSH that signs. Without it nothing is signed.")
    ] = None,
) -> None:
    """Make what a release consists of, from a commit. What of the checkout is not committed is not in it."""
    if revision == "HEAD" and (changed := tree.differs()):
        print(f"not in the release: {len(changed)} files that are not committed, as {changed[0]}", file=sys.stderr)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        made = _tree(Path(folder) / "tree", version, revision)
        wheel = next(path for path in wheels.build(made, into) if path.suffix == ".whl")
        chart.build(made, into)
        image.build(made, into)
        _sbom(made, into)
        for suite in debian.SUITES:
            for architecture in debian.PROCESSORS:
                debian.build(made, wheel, into, suite, architecture)
    listed = sums.write(into)
    if key is not None:
        sums.sign(listed, key)
    for path in sorted(into.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    print(f"verify: {sums.VERIFY}" if key is not None else "not signed: KEY=~/.ssh/id_ed25519 signs SHA256SUMS")


def _tree(path: Path, version: str, revision: str) -> tree.Tree:
    try:
        return tree.export(path, version, revision)
    except tree.NotReleasable as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


def _sbom(made: tree.Tree, into: Path) -> None:
    """CycloneDX, of what the packages for Debian have: each with its version and its hashes."""
    lock = made.path / "packaging" / "debian" / "requirements.lock"
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "requirements",
        "--output-reproducible",
        "--output-format",
        "JSON",
    ]
    command += ["--pyproject", str(made.path / "pyproject.toml")]
    command += ["--output-file", str(into / f"walflow-{made.version}.cdx.json"), str(lock)]
    subprocess.run(command, cwd=made.path, capture_output=True, check=True)


if __name__ == "__main__":
    typer.run(main)
