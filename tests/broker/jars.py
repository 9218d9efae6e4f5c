"""Kafka's jars, fetched once by Maven into a directory outside the tree."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pyspark_walflow.java import NoJava, find_java

VERSION: Final = "4.1.0"
POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>walflow</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "walflow-tests" / f"kafka-{VERSION}"


def absent() -> str | None:
    """Why there can be no broker here."""
    try:
        find_java()
    except NoJava as error:
        return str(error).replace("Spark", "Kafka")
    if (CACHE / "complete").exists():
        return None
    if shutil.which("mvn") is None:
        return "no Maven to fetch Kafka: sudo apt-get install maven"
    return None


def jars() -> Path:
    """The directory, which is filled if it is not."""
    if not (CACHE / "complete").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pom = CACHE / "pom.xml"
        pom.write_text(POM.format(version=VERSION))
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), COPY, f"-DoutputDirectory={CACHE / 'jars'}"]
        subprocess.run([*command, "-DincludeScope=runtime"], check=True, stdin=subprocess.DEVNULL)
        (CACHE / "complete").touch()
    return CACHE / "jars"
