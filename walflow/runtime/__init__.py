"""What makes an Assembly run. Only `daemon` and `loop` know asyncio; nodes, gates and receipts are plain calls,
and all they ask of a loop is a `Scheduler`."""
