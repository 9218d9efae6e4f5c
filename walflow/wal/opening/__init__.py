"""What happens when a log is opened: what its directory contains is found out, and the log continues after it.

    survey    which files are chunks of this log, by their headers
    scan      one chunk, read from its first record to its last
    scans     the chunks that must be read: those in which the last commit may have written
    tail      what is torn, lost or sound in them
    settle    cuts and writes again, so that the next start finds the same
    recovery  all of it in order, with `meta` and the cursor

Begin with `recover` in recovery.py. docs/reference/wal-format.md has the rules as a table.
"""
