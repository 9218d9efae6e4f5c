"""A log that Spark reads: what arrives is acked once it is on disk, and Spark's commits are the acks.

    config, connector   what a flow file says, and what one run is put together of
    spark_log           the log with what writes and acks it; `consumers`: how far each consumer is
    serve               the port for `format("walflow")`: peers, their sessions, ranges of positions
    results             what queries bring back
    socket              the port for Spark's own `format("socket")`
    job                 a driver process that the daemon keeps running

The Spark side of all this is the package `pyspark_walflow`.
"""

from connectors.spark.connector import Spark

__all__ = ["Spark"]
