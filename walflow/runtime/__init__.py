"""What makes nodes run on an asyncio loop. `daemon` is the process, and reads from top to bottom: `readiness` is what it
tells systemd, `drain` how it ends in good order, `fatal` how it ends where it cannot go on. `runner` runs one connector
again and again; `loop` is the `Scheduler` of each run.
"""
