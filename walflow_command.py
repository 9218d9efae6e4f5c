"""The command `walflow`, outside the package, whose import alone takes a third of a second: Ctrl-C meanwhile is silent too."""

import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main() -> None:
    try:
        from walflow.cli import main as walflow

        walflow()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
