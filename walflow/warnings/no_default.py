from typing import Final

from walflow.warnings import WarningKind

NO_DEFAULT: Final = WarningKind("no-default", "A `match` has no `default`.")
