"""Where a pipeline can run, as `#!config engine` and `--engine` call it. walflow compiles it for either."""

from typing import Final

DAEMON: Final = "daemon"
SPARK: Final = "spark"
ENGINES: Final = (DAEMON, SPARK)
