"""Which Java Spark would run on: `python -m pyspark_walflow.java` says it, or what to type, with exit code 1."""

import os
import re
import shutil
import subprocess
import sys
from typing import Final, NamedTuple

NEEDED: Final = 17  # Spark 4 runs on nothing older
ADVICE: Final = "sudo apt-get install openjdk-17-jre-headless, or set JAVA_HOME"


class NoJava(Exception):
    """The text is one line: what is missing, and what to type."""


class Java(NamedTuple):
    path: str
    version: int

    def __str__(self) -> str:
        return f"Java {self.version}, {self.path}"


def find_java() -> Java:
    """Where Spark looks, too: in JAVA_HOME if it is set, else on PATH. Raises NoJava."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        where = "there is none on PATH" if path is None else f"there is no {path}, where JAVA_HOME points"
        raise NoJava(f"Spark needs Java {NEEDED} or newer and {where}: {ADVICE}")
    version = _version(path)
    if version is None:
        raise NoJava(f"{path} does not say which Java it is, Spark needs {NEEDED} or newer: {ADVICE}")
    if version < NEEDED:
        raise NoJava(f"Spark needs Java {NEEDED} or newer and {path} is {version}: {ADVICE}")
    return Java(path, version)


def _version(path: str) -> int | None:
    try:
        said = subprocess.run([path, "-version"], capture_output=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb'version "(?:1\.)?(\d+)', said)  # 8 calls itself 1.8
    return int(found[1]) if found else None


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_java()}\n")
    except NoJava as error:
        sys.exit(str(error))
