from typing import Final

from walflow.warnings import WarningKind

UNLINKED: Final = WarningKind("unlinked", "No link or select leads to a port or comes from it.")
