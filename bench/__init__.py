"""Events a second, CPU and memory, beside others doing the like: `make bench`, or `python -m bench --help`.

Systems take turns within a round, and only ratios within one run count: absolute numbers move by half with the
machine's mood. Every run verifies that what came back is what was sent, byte for byte.
"""
