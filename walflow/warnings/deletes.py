from typing import Final

from walflow.warnings import WarningKind

DELETES: Final = WarningKind("deletes", "A full log deletes events that no sink has acked.")
