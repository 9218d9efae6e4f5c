"""For Spark's own socket source: each event is a line, at most once."""
