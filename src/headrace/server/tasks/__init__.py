"""Tasks of a server (TK-01..TK-31).

``feature`` is what clients see, ``engine`` and ``run`` what runs them, ``sqlite_store`` the durable store; a
task and the interface of stores are in :mod:`headrace.protocol.tasks`.
"""

__all__ = ()
