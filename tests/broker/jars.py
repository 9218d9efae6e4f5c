"""Jars of Kafka, and of Spark's source for it, fetched once by Maven into a directory outside the tree."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pyspark_walflow.java import NoJava, find_java

VERSION: Final = "4.1.0"
POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>walflow</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
SETTINGS: Final = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
  <mirrors><mirror>
    <id>central</id><mirrorOf>gcs-maven-central-mirror</mirrorOf><url>https://repo.maven.apache.org/maven2</url>
  </mirror></mirrors>
</settings>
"""  # Spark's own pom asks a mirror first that not every network lets through
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
DEPENDENCY: Final = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
ROOT: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "walflow-tests"
CACHE: Final = ROOT / f"kafka-{VERSION}"
BROKER: Final = tuple(("org.apache.kafka", name, VERSION) for name in ("kafka_2.13", "kafka-tools"))
SPARK_VERSION: Final = "4.2.0"  # of Spark's source for Kafka, the newest that Maven has; it also runs on Spark 4.3.0
SPARK_CACHE: Final = ROOT / f"spark-kafka-{SPARK_VERSION}"
SPARK: Final = (("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),)
LACKING: Final = (  # in pyspark
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)


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
    """The directory of the broker's, which is filled if it is not."""
    return fetched(CACHE, BROKER)


def spark_jars() -> Path:
    """The same of Spark's source for Kafka."""
    return fetched(SPARK_CACHE, SPARK, f"-DincludeArtifactIds={','.join(LACKING)}")


def fetched(directory: Path, dependencies: Iterable[tuple[str, str, str]], *more: str) -> Path:
    """The directory of their jars. `more`: options of Maven's copy-dependencies."""
    if not (directory / "complete").exists():
        directory.mkdir(parents=True, exist_ok=True)
        pom = directory / "pom.xml"
        pom.write_text(POM.format(dependencies="\n".join(DEPENDENCY.format(*one) for one in dependencies)))
        settings = directory / "settings.xml"
        settings.write_text(SETTINGS)
        command = ["mvn", "--quiet", "--batch-mode", "--global-settings", str(settings), "--file", str(pom)]
        command += [COPY, "-DincludeScope=runtime", *more]
        command.append(f"-DoutputDirectory={directory / 'jars'}")
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        (directory / "complete").touch()
    return directory / "jars"
