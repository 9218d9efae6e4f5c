"""A Python that has pyspark and what it needs, and nothing of walflow nor of what that depends on."""

import venv
from pathlib import Path

SPARKS = (
    "numpy",
    "numpy.libs",
    "pandas",
    "pandas.libs",
    "py4j",
    "pyarrow",
    "pyspark",
    "dateutil",
    "pytz",
    "six",
    "tzdata",
)


def borrow_spark(directory: Path) -> Path:
    """A directory with pyspark and what it needs."""
    import pyspark

    for found in Path(pyspark.__file__).parents[1].iterdir():
        if found.name.removesuffix(".py") in SPARKS:
            (directory / found.name).symlink_to(found)
    return directory


def clean_python(environment: Path, sparks: Path) -> Path:
    """Of a fresh environment."""
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "sparks.pth").write_text(f"{sparks}\n")
    return environment / "bin/python"
