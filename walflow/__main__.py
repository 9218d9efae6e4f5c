"""`python -m walflow`."""

from walflow.cli import main

main()
