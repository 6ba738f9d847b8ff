"""A GET of a session that several processes serve (HO-10, HO-21, B95).

What it opens depends on others: the session's GET stream, which this process has to be given first, or what a POST
stream has still to say, whichever process works on its request. Until that is known nothing is sent, so that it can
still be refused.
"""

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

from headrace.transports._http_endpoint cimport Connection, put_rpc_error
from headrace.transports._http_exchange cimport HttpExchange
from headrace.wire._http1 cimport ACCEPT_SSE

__all__ = ("RelayExchange",)

cdef enum:
    FRESH = 0                # HttpExchange.mode


cdef class RelayExchange(HttpExchange):
    """One such GET."""

    cdef int begin(self, Connection link, object session, object last, bytes extra) except -1:
        """`last` is its Last-Event-ID, or None. Serves it on `link`, now or once it is known what it opens."""
        self.reset(link, 0)
        self.extra = extra
        self.session = session
        self.principal = session.principal
        session.active = True
        link.endpoint.runtime.spawn(self.serve(session, last))
        return 0

    async def serve(self, session, last):
        report = self.link.endpoint.runtime.report
        try:
            opened = await session.open_get(last)
        except RpcError as exc:
            self.turn_down(exc.http_status or 400, exc.code, exc.message)
            return
        except OSError:
            self.turn_down(
                503, INTERNAL_ERROR, "what the processes of this server share cannot be reached now: try again")
            return
        except Exception as exc:
            report("an event stream could not be opened", exc)
            self.turn_down(500, INTERNAL_ERROR, "internal error")
            return
        try:
            if opened.follower is not None:
                await self.follow(session, opened.follower, opened.resumed.events)
            elif self.closed or session.ended:
                session.shared.given_up(session)
                self.turn_down(404, INVALID_REQUEST, "the session has ended")
            else:
                if opened.resumed.stream is not None:
                    session.make_keeper().events  # the stream has a name; here nothing may have been kept yet
                self.start_stream(opened.resumed.stream, opened.resumed.events)
                session.stream_opened(self)
                if opened.missed:
                    session.tell_all_changed()
        except Exception as exc:
            report("an event stream failed", exc)
            self.end_stream()

    async def follow(self, session, follower, events):
        """Goes on with a POST stream."""
        if self.closed or session.ended:
            follower.stop()
            self.turn_down(404, INVALID_REQUEST, "the session has ended")
            return
        self.follower = follower
        self.accept |= ACCEPT_SSE
        self.put_stream_head()
        self.put_events(events)
        self.comment()
        try:
            await follower.run(self)
        finally:
            self.follower = None
            follower.stop()

    cdef int turn_down(self, int status, int code, str text) except -1:
        """Refuses it, where anybody is still there to hear of it. 503: the other processes are the reason."""
        cdef bint keep
        if self.closed or self.mode != FRESH:
            return 0
        if status != 503:
            return self.answer_error(status, code, text)
        keep = self.keep_alive()
        self.link.endpoint.runtime.refused("backplane")
        put_rpc_error(
            self.link.endpoint, self.link.queue(), status, code, text, None, self.extra or b"", not keep, False)
        return self.end()

    # --- what a follower calls ----------------------------------------------------------------------

    def send_event(self, str id not None, bytes data not None):
        """One event of the stream."""
        if self.closed or self.link is None:
            return
        self.put_whole(self.link.queue(), id.encode("ascii"), data, -1)
        self.since = self.link.endpoint.tick
        self.link.wake()

    def room(self):
        """None, or a future to wait for until the peer has read."""
        return self.drained() if self.congested() else None

    def finish(self):
        """Ends the answer whole."""
        self.end_stream()

    # --- the exchange -------------------------------------------------------------------------------

    cdef int retire(self) except -1:
        """The server shuts down: the client comes back to another process."""
        if self.follower is not None:
            self.follower.stop()
        return self.end_stream()

    cdef int detach(self) except -1:
        HttpExchange.detach(self)
        if self.follower is not None:
            self.follower.stop()
        return 0
