"""Slow, plain Python twins of compiled parts: the oracles of the property tests."""
