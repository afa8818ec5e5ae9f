"""The demonstration: real conversations replayed by workers that share them, one of them killed."""
