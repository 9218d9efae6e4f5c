from typing import Final

from walflow.warnings import WarningKind

EMPTIED: Final = WarningKind("emptied", "Every start empties or overwrites a file.")
