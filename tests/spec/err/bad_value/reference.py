"""A stand-in."""
