"""What of `nightly` runs when: all of it by `make nightly`, what a change touches by `make touched`, which a build
runs.

In the order in which they are read:

- `units`: a unit is a test file in one of the four passes of nightly; which units there are is asked of pytest.
- `tree`: which files a test file reaches, by imports and by what its texts name. The digest of their contents says
  whether a unit has passed with these very files; the distance to a file that changed says how near the change is.
- `ledger`: which unit ran when, at which commit, with which digest and outcome. `.nightly.json` is this checkout's;
  `.ci/nightly.json` is committed, so that a fresh clone knows what has passed before.
- `choice`: what runs, in which order, in which slices. A slice is one run of pytest.
- `run`: runs slices and notes each in the ledger when it ends: who is killed loses the slice that ran.

    python -m tests.nightly --list        # the ledger as a table
    python -m tests.nightly --touched --seconds 480 --base origin/main

Why it is so: docs/decisions/0043-what-a-build-runs.md.
"""
