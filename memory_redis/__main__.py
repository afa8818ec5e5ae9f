"""``python -m memory_redis``: the command line."""

import sys

from memory_redis.cli import main

if __name__ == "__main__":
    sys.exit(main())
