"""The command `walflow`, outside the package, whose import alone takes a third of a second: Ctrl-C meanwhile is silent too."""

import gc
import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells have it; walflow/interrupted.py has the same for `python -m walflow`


def main() -> None:
    try:
        gc.disable()  # an import makes what stays; looking through it for what does not is a quarter of a start
        from walflow.cli import main as walflow

        gc.freeze()
        gc.enable()
        walflow()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
