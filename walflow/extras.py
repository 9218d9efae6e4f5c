"""Packages that only some flows need: the extras of walflow's distribution, and how a message says to get one.

What an extra installs stands in pyproject.toml, and from there in the metadata of the installed distribution. The
line names these packages, and not `walflow[EXTRA]`: no package index has walflow.
"""

import re
import sys
from importlib.metadata import requires
from importlib.util import find_spec


def lacks(what: str, extra: str) -> str:
    """The message where `what` cannot run without `extra`: which package is missing,
    and the line that installs it."""
    name, *_ = re.split(r"[^\w.-]", packages_of(extra)[0])
    return f"{what} needs {name}: {install_line(extra)}"


def install_line(extra: str) -> str:
    """What to type, for the Python that runs this. An environment that uv made has no pip."""
    packages = " ".join(f"'{package}'" for package in packages_of(extra))
    if find_spec("pip") is None:
        return f"uv pip install --python {sys.executable} {packages}"
    return f"{sys.executable} -m pip install {packages}"


def extra_with(package: str) -> str:
    """The extra that installs this package, named as in metadata: `google-re2`."""
    lines = [line.partition(";") for line in requires("walflow") or []]
    found = (
        re.search(r"extra == ['\"]([\w-]+)", marker)
        for name, _, marker in lines
        if re.split(r"[^\w.-]", name)[0] == package
    )
    return next(extra[1] for extra in found if extra is not None)


def packages_of(extra: str) -> list[str]:
    """As pip takes them, with their versions."""
    parts = [line.partition(";") for line in requires("walflow") or []]
    return [package.strip() for package, _, marker in parts if re.search(rf"extra == ['\"]{extra}['\"]", marker)]
