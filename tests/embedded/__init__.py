"""The embedded server: real servers, real processes, real kills."""
