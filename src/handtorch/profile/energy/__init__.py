"""Joules for operations: readings of a power or energy signal joined to what ran meanwhile."""
