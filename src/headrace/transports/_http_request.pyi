from collections.abc import Callable

from headrace.limits import Limits
from headrace.mux import Mux, PendingCall, Sink
from headrace.transports._http_conn import HttpConn, HttpPool, HttpRequest

__all__ = ("CallOptions", "ChannelState", "ClientCall", "ClientRequest", "encode_header_value")

def encode_header_value(value: str | int | bool) -> bytes: ...

class CallOptions:
    @property
    def fields(self) -> bytes | None: ...
    @property
    def own(self) -> bytes | None: ...
    @property
    def resume(self) -> bytes | None: ...
    @property
    def on_event_id(self) -> Callable[[str], object] | None: ...
    def __init__(
        self,
        *,
        fields: bytes | None = None,
        own: bytes | None = None,
        resume: bytes | None = None,
        on_event_id: Callable[[str], object] | None = None,
    ) -> None: ...

class ChannelState(Sink):
    protocol_version: str | None
    session_id: str | None
    modern: bool
    watcher: Callable[[ClientRequest, int, bytes], object] | None
    @property
    def receiving_call(self) -> PendingCall | None: ...
    @property
    def mux(self) -> Mux: ...
    @property
    def pool(self) -> HttpPool: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def target(self) -> bytes: ...
    def __init__(
        self,
        mux: Mux,
        limits: Limits,
        opener: Callable[[HttpConn], object],
        *,
        host: bytes,
        target: bytes,
        user_fields: bytes = b"",
    ) -> None: ...
    def set_fields(self, fields: bytes) -> None: ...
    def retarget(self, target: bytes) -> None: ...
    def locate(self, location: str) -> bytes: ...
    def post_failed(self, what: str, exc: BaseException) -> None: ...

class ClientRequest(HttpRequest):
    @property
    def own(self) -> bytes | None: ...
    @property
    def channel(self) -> ChannelState: ...
    @property
    def status(self) -> int: ...
    @property
    def session_id(self) -> str | None: ...

class ClientCall(ClientRequest):
    def resume(self) -> None: ...
