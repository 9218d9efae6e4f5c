from typing import Final

from walflow.warnings import WarningKind

NO_LOG: Final = WarningKind("no-log", "What fails is lost, because no log is upstream.")
