"""What a running daemon shows of itself, over HTTP: /metrics, /livez, /readyz, /status."""
