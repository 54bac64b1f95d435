"""Films: probing a video file, making one, and the named ones."""
