"""An hour of mixed load at one rate: what of a daemon grows meanwhile? `python -m bench.steady`."""
