"""What the tests stand on: real servers, a fault proxy, a checker of append logs. Nothing plays Redis."""
