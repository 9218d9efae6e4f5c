from typing import Final

from walflow.warnings import WarningKind

OTHER_KIND: Final = WarningKind("other-kind", "A value is compared with a value of another kind.")
