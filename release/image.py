"""The build context of the image: the Dockerfile, and the files that .dockerignore lets pass."""

from pathlib import Path

from release.packed import pack
from release.tree import Tree


def build(tree: Tree, into: Path) -> Path:
    """For `docker build -t walflow - < FILE`."""
    kept = [line[1:] for line in (tree.path / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"]
    files = [tree.path / "Dockerfile"]
    for place in (tree.path / name for name in kept):
        files += [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else [place]
    named = {str(path.relative_to(tree.path)): path for path in files}
    return pack(named, tree.epoch, into / f"walflow-image-{tree.version}.tar.gz")
