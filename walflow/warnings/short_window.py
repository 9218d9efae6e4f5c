from typing import Final

from walflow.warnings import WarningKind

SHORT_WINDOW: Final = WarningKind("short-window", "A window is so short that its interval may have the wrong unit.")
