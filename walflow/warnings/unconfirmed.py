from typing import Final

from walflow.warnings import WarningKind

UNCONFIRMED: Final = WarningKind("unconfirmed", "A peer that dies, or a network, loses events that are acked.")
