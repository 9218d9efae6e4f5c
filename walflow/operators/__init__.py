"""What happens to events within a pipeline, one operator a file."""
