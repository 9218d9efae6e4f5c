from typing import Final

from walflow.warnings import WarningKind

DROPPED: Final = WarningKind("dropped", "Events end there and are dropped.")
