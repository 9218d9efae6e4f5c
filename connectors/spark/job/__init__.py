"""The pipeline on Spark that the daemon keeps running: a driver process with a JVM of its own."""
