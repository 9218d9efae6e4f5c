from typing import Final

from walflow.warnings import WarningKind

CREDENTIAL: Final = WarningKind("credential", "A password or a token stands in the flow file.")
