"""What walflow needs of Spark and of its Python."""

from importlib import import_module
from typing import Final

from pyspark_walflow.errors import WalflowError

OLDEST: Final = (4, 2)  # the first whose Python sources may bound a batch


def require_spark() -> None:
    """Raises WalflowError."""
    try:
        version = str(import_module("pyspark").__version__)
    except ImportError as error:
        raise WalflowError(f"there is no pyspark: pip install 'walflow[spark]' ({error})") from None
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


def oldest() -> str:
    return ".".join(map(str, OLDEST))
