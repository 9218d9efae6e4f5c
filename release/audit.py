"""`python -m release.audit DIRECTORY`: known problems of the locked dependencies, without a network. The directory
has advisories as OSV writes them, in YAML or JSON: a clone of PyPA's advisory database, or what OSV has of PyPI,
unpacked."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from release.tree import ROOT

LOCKS: Final = (ROOT / "packaging" / "requirements.lock", ROOT / "packaging" / "debian" / "requirements.lock")
LOCKED: Final = re.compile(r"^([\w.-]+)==([^ ;\\]+)", re.MULTILINE)


class Problem(NamedTuple):
    package: str
    version: str
    advisory: str
    """Its name there, and the other names that it has."""


def main(
    database: Annotated[Path, typer.Argument(help="A directory of advisories.")],
    lock: Annotated[list[Path] | None, typer.Option(help="Instead of those in packaging/.")] = None,
) -> None:
    """Print each known problem of a locked version.
    Ends with 1 if there is one, with 2 if there are no advisories."""
    texts = [path.read_text("utf-8") for path in lock or LOCKS]
    packages: set[tuple[str, str]] = {
        (canonicalize_name(name), version) for text in texts for name, version in LOCKED.findall(text)
    }
    known = list(advisories(database))
    if not known:
        print(f"{database} has no advisories", file=sys.stderr)
        raise typer.Exit(2)
    found = sorted({problem for one in known for problem in problems(one, packages)})
    for problem in found:
        print(f"{problem.package} {problem.version}: {problem.advisory}")
    newest = max(str(one.get("modified", "")) for one in known)[:10]
    print(f"{len(packages)} packages, {len(known)} advisories, the newest of {newest}: {len(found)} problems")
    raise typer.Exit(1 if found else 0)


# Any: what a file of OSV has is known by its text alone
def advisories(database: Path) -> Iterator[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(database.rglob("*")):
        if path.suffix in (".json", ".yaml", ".yml") and path.is_file():
            one = yaml.load(path.read_text("utf-8"), loader)  # JSON is YAML
            if isinstance(one, dict) and "affected" in one and "withdrawn" not in one:
                yield one


def problems(one: Mapping[str, Any], packages: set[tuple[str, str]]) -> Iterator[Problem]:
    for affected in one["affected"]:
        about = affected.get("package", {})
        if about.get("ecosystem") == "PyPI":
            name = canonicalize_name(about["name"])
            for package, version in packages:
                if package == name and _hits(affected, version):
                    yield Problem(package, version, " ".join([one["id"], *one.get("aliases", [])]))


def _hits(affected: Mapping[str, Any], version: str) -> bool:
    if version in affected.get("versions", []):
        return True
    ranges = (part["events"] for part in affected.get("ranges", []) if part.get("type") == "ECOSYSTEM")
    return any(_within(events, Version(version)) for events in ranges)


def _within(events: list[Mapping[str, str]], version: Version) -> bool:
    """`events`: where a problem begins, where it ends, in the order of the versions."""
    inside = False
    for event in events:
        for kind, text in event.items():
            try:
                at = Version(text)
            except InvalidVersion:
                continue
            if kind == "introduced" and at <= version:
                inside = True
            if (kind == "fixed" and at <= version) or (kind == "last_affected" and at < version):
                inside = False
    return inside


if __name__ == "__main__":
    typer.run(main)
