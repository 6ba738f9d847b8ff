"""Several processes of one server, under a supervisor that accepts for all of them (docs/workers.md).

``binding`` binds the addresses, ``acceptor`` gives each connection to a worker, ``supervisor`` starts, replaces and
ends them, each of which it sees as a ``process``. ``worker`` is that process from the inside, ``line`` what the two say
to each other; ``signals``, ``cpus`` and ``figures`` are what their names say.
"""

__all__ = ()
