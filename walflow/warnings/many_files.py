from typing import Final

from walflow.warnings import WarningKind

MANY_FILES: Final = WarningKind("many-files", "A log makes a new file so often that it is slow.")
