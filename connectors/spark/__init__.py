"""A log that Spark reads: what arrives is acked once it is on disk, and Spark's commits are the acks."""

from connectors.spark.connector import Spark

__all__ = ["Spark"]
