"""The Spark half of walflow. It stands alone: importable without walflow, so that `--py-files` can ship it."""
