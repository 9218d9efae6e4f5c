"""The port that Spark talks to: `listener` lets peers in, `link` cuts their frames, `session` answers them."""
