"""Apache Kafka's own broker, of jars that Maven fetches: no download is part of `make test`.

`jars` fetches them, `kafka` is one broker, `kills` is the run with 30 kills. `python -m tests.broker` starts a broker
and tells its address; `python -m tests.broker.kills` makes the run.
"""
