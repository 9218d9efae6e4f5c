"""The admin interface of a running daemon, over HTTP: /metrics, /livez, /readyz, /status."""
