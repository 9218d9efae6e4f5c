from typing import Final

from walflow.warnings import WarningKind

UNREACHED: Final = WarningKind("unreached", "A statement or a case is never reached.")
