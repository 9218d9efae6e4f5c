"""Ctrl-C while `python -m walflow` imports this package, which comes before `__main__`: no traceback,
as everywhere else."""

import os
import sys
from types import TracebackType

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        os._exit(INTERRUPTED)  # nothing was printed or opened yet
    sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"] and "walflow" in sys.orig_argv:  # as it stands until `__main__` runs
    sys.excepthook = _told
