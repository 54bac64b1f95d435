"""The page `play/`: its set-up, the tables that it makes plans from, its links, and its local server."""
