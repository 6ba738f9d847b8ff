"""What every Context is made of, and what handlers do with one most: telling progress.

A Context is made for every call that asks for one, so making it runs no Python code.
"""

from headrace.mux._mux cimport Exchange

__all__ = ("SENT", "TURN", "ContextBase")

cdef enum:
    SENDS_A_TURN = 32


class _Sent:
    """An awaitable that is done: nothing has to drain."""

    __slots__ = ()

    def __await__(self):
        return NOTHING


class _Turn:
    """An awaitable that lets the event loop run once: other clients, and news of this one, get their turn."""

    __slots__ = ()

    def __await__(self):
        return iter((None,))


NOTHING = iter(())
SENT = _Sent()
TURN = _Turn()
cdef object sent = SENT
cdef object turn = TURN


cdef class ContextBase:
    """The base of :class:`~headrace.protocol.context.Context`."""

    def __init__(self, Exchange exchange not None):
        self._exchange = exchange
        if exchange.resumed and exchange.revision.modern:
            # What an earlier round left is checked before the handler does anything (MX-35).
            from headrace.protocol.asking import asker_of

            asker_of(exchange).load(exchange)

    def progress(self, done, total=None, message=None):
        """Tells the client how far the work is; does nothing unless it asked (MX-02, MX-03).

        ``done`` must increase from call to call, other values are dropped; ``total`` is in the same
        unit. Await the result to slow down to what the client reads.
        """
        found = self._exchange.progress(done, total, message)
        return self._sent() if found is None else found

    def _sent(self):
        # A handler that only sends would never suspend: now and then its await is a real one.
        self.sends += 1
        return sent if self.sends % SENDS_A_TURN else turn
