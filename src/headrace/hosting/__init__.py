"""Hosting beyond one process: workers under a supervisor, what they share, and how they are watched."""

__all__ = ()
