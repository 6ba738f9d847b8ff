"""Requests per second of each caller: token buckets, and the table that holds them (limits.rate_limit).

A bucket is one number, the time at which it is full again (GCRA): nothing has to be refilled, and a bucket whose time
has come is as good as none. So the table holds only callers that were busy just now, and is bounded all the same:
when ``limits.max_rate_buckets`` of them are, those go whose time has come, and then those that have been in it
longest. They begin anew with a whole bucket.

A caller is its principal where one is known, else the address that it calls from; of an IPv6 address its network of
64 bits, which is what one customer is given. Everybody on unix sockets and pipes is one caller.
"""

from cpython.unicode cimport PyUnicode_GET_LENGTH

from ipaddress import IPv6Address

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR

__all__ = ("Rates", "caller_of")

cdef enum:
    CACHED = 4096            # addresses whose network is remembered
    LONGEST = 256            # characters of a principal that stands for itself in a table

cdef dict networks = {}


cdef str network_of(str peer):
    """What all addresses of one customer have in common."""
    cdef object found = networks.get(peer)
    if found is None:
        found = peer
        if ":" in peer:
            try:
                found = IPv6Address(int(IPv6Address(peer)) >> 64 << 64).compressed + "/64"
            except ValueError:
                pass             # no address: a name that a proxy gave
        if len(networks) >= CACHED:
            networks.clear()
        networks[peer] = found
    return found


cpdef object caller_of(object principal, object peer):
    """What a table knows a caller by: hashable, and of bounded size. `principal` is None where there is none;
    `peer` is an address."""
    if principal is None:
        return ("peer", network_of(str(peer))) if peer is not None else ("peer", "unix")
    if type(principal) is str and PyUnicode_GET_LENGTH(principal) <= LONGEST:
        return principal
    try:
        return hash(principal), type(principal)
    except TypeError:
        return hash(repr(principal)), type(principal)


cdef class Rates:
    """The buckets of one server.

    `rate` requests a second are allowed to each caller, `burst` at once to one that was quiet; `most` buckets are
    kept; `clock()` gives seconds.
    """

    def __init__(self, double rate, double burst, Py_ssize_t most, clock):
        if not (rate > 0 and burst >= 1 and most > 0):
            raise ValueError("rate and most are positive, burst is at least 1")
        self.rate = rate
        self.burst = burst
        self.most = most
        self.clock = clock
        self.step = 1 / rate
        self.slack = (burst - 1) * self.step
        self.full_at = {}

    def __len__(self):
        return len(self.full_at)

    cpdef double take(self, object caller) except? -1:
        """Takes one request out of a bucket. 0: it may go on; else the seconds until it might, and nothing is taken."""
        cdef double now = self.clock()
        cdef object found = self.full_at.get(caller)
        cdef double at = now
        cdef double wait
        if found is None:
            if len(self.full_at) >= self.most:
                self.make_room(now)
        else:
            at = <double>found
            if at < now:
                at = now
        wait = at - now - self.slack
        if wait > 1e-9:
            return wait
        self.full_at[caller] = at + self.step
        return 0

    cpdef int owe(self, object caller, Py_ssize_t more) except -1:
        """Takes `more` requests that came along with one that was taken, whether they are there or not: what
        is missing has to be waited for by the next."""
        if caller in self.full_at:
            self.full_at[caller] += more * self.step
        return 0

    def refusal(self, double wait):
        """The answer to a request that has to wait for so many seconds."""
        return RpcError(
            INTERNAL_ERROR, self.text(wait), {"retryAfter": rounded(wait)}, http_status=429, refusal="rate_limit",
            retry_after=wait)

    cdef str text(self, double wait):
        return f"too many requests: {self.rate:g} a second are allowed to one caller; ask again in {rounded(wait):g} s"

    cdef int make_room(self, double now) except -1:
        cdef dict table = self.full_at
        cdef list gone = [caller for caller, at in table.items() if <double>at <= now]
        cdef Py_ssize_t keep = self.most - max(self.most >> 3, 1)
        for caller in gone:
            del table[caller]
        if len(table) > keep:
            gone = list(table)
            for caller in gone[:len(gone) - keep]:
                del table[caller]
        return 0


cdef double rounded(double wait):
    """Seconds for people and messages: upwards, so that who waits so long has waited long enough."""
    cdef double scale = 1000 if wait < 10 else 1
    cdef long long n = <long long>(wait * scale)
    return (n + (n < wait * scale)) / scale
