from typing import Final

from walflow.warnings import WarningKind

NEVER_COMES: Final = WarningKind("never-comes", "The time of a cron entry never comes.")
