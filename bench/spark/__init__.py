"""Spark reading walflow, beside Spark reading the same lines as text files and from its socket source: `make bench`,
or `python -m bench.spark --help`.

One session for all of it, cases in turn within a round; the first round warms the JVM and does not count. Every run
is verified: rows and their sum, in what the sink has.
"""
