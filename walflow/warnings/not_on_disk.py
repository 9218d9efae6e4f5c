from typing import Final

from walflow.warnings import WarningKind

NOT_ON_DISK: Final = WarningKind("not-on-disk", "A log is in memory, and its name says that it is on disk.")
