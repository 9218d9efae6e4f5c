from typing import Final

from walflow.warnings import WarningKind

ENDS_IN_LET: Final = WarningKind("ends-in-let", "A script ends in a `let`, and what leaves is its value.")
