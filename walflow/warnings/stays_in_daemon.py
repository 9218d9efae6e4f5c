from typing import Final

from walflow.warnings import WarningKind

STAYS_IN_DAEMON: Final = WarningKind("stays-in-daemon", "A pipeline cannot run on Spark.")
