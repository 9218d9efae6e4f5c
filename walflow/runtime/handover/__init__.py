"""The next process of a daemon takes over from this one: see docs/decisions/0055-handover.md."""
