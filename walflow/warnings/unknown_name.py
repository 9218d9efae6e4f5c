from typing import Final

from walflow.warnings import WarningKind

UNKNOWN_NAME: Final = WarningKind("unknown-name", "A name is asked for that nothing has.")
