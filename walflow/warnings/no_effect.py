from typing import Final

from walflow.warnings import WarningKind

NO_EFFECT: Final = WarningKind("no-effect", "A key or a directive has no effect.")
