"""The show-piece: an echo server with a log is killed again and again under load, and a ledger is kept of every line.

`make demo`, or `python -m demo --help`.
"""
