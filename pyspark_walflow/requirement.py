"""What walflow needs of Spark and of its Python."""

import sys
from importlib import import_module
from typing import Final

from pyspark_walflow.errors import WalflowError

OLDEST: Final = (4, 0)  # the first whose Python sources give and take Arrow; see older_spark for what it has not
PACKAGES: Final = ("pyspark>=4.0", "pyarrow>=18", "pandas>=2.2,<3", "protobuf>=6.33.5,<7")
"""The extra `spark` of pyproject.toml, again: in the interpreter that runs this walflow may not be installed."""


def require_spark() -> None:
    """Raises WalflowError."""
    try:
        version = str(import_module("pyspark").__version__)
    except ImportError as error:
        raise WalflowError(f"{sys.executable} has no pyspark: {install_line()} ({error})") from None
    require(version)


def is_too_old(version: str) -> bool:
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    return tuple(numbers) < OLDEST


def require(version: str) -> None:
    """Raises WalflowError."""
    if is_too_old(version):
        raise WalflowError(f"Spark {version} is too old: Spark {oldest()} or newer is needed")
    for package in ("pyarrow", "numpy"):
        try:
            import_module(package)
        except ImportError as error:
            raise WalflowError(
                f"Spark's Python has no {package} ({error}): install it there, on the driver and on every executor"
            ) from None


def install_line() -> str:
    packages = " ".join(f"'{package}'" for package in PACKAGES)
    return f"{sys.executable} -m pip install {packages}"


def oldest() -> str:
    return ".".join(map(str, OLDEST))
