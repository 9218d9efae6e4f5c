from typing import Final

from walflow.warnings import WarningKind

SEPARATOR: Final = WarningKind("separator", "The bytes of a codec may hold the separator.")
