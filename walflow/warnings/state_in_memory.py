from typing import Final

from walflow.warnings import WarningKind

STATE_IN_MEMORY: Final = WarningKind("state-in-memory", "State or open windows are lost when walflow stops.")
