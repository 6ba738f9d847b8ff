"""Tasks: work that outlives its request, in both eras (TK-01..TK-31).

``states`` holds a task and its forms on the wire, ``store`` where tasks are kept, ``engine`` what runs them.
"""

__all__ = ()
