"""Runs the nodes on an asyncio loop. `daemon` is the process; read it first, from top to bottom. `readiness` tells
systemd the state. `drain` is the orderly end, `fatal` the end after an error. `runner` runs one connector again and
again. `loop` is the `Scheduler` of each run.
"""
