from typing import Final

from walflow.warnings import WarningKind

RISK: Final = WarningKind("risk", "A warning of a connector of another package.")
