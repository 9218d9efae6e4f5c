"""The connectors that walflow ships, one module each, registered by entry point."""
