"""How it is said to Redis. Nothing outside this package speaks to a server."""
