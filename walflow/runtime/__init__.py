"""What makes nodes run on an asyncio loop: `daemon` is the process, `runner` runs one connector again and again, `loop` is
the `Scheduler` of each run."""
