"""What Spark's queries bring back, published once per (query, batch) and sent on `out`."""
