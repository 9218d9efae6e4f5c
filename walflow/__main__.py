"""`python -m walflow`."""

from walflow_command import main

main()
