"""Options for the JVMs of the suite. There are about sixty, and each lives for seconds: Java's second compiler and
the threads of its default collector cost two fifths of the processor time of all tests on Spark,
and never earn it back."""

import os
from typing import Final

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
EXECUTORS: Final = {"spark.executor.extraJavaOptions": SHORT_LIVED}
VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS")  # driver, launcher, cluster


def be_short_lived() -> None:
    """For all that the suite starts."""
    for name in VARIABLES:
        os.environ.setdefault(name, SHORT_LIVED)
