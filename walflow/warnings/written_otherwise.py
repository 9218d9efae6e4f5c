from typing import Final

from walflow.warnings import WarningKind

WRITTEN_OTHERWISE: Final = WarningKind("written-otherwise", "The file is read otherwise than it is written.")
