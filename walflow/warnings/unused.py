from typing import Final

from walflow.warnings import WarningKind

UNUSED: Final = WarningKind("unused", "What is defined or created has no use.")
