"""The command line, as processes that are run and read."""
