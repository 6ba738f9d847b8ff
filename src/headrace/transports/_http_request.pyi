from collections.abc import Callable

from headrace.limits import Limits
from headrace.mux import Mux, Sink
from headrace.transports._http_conn import HttpConn, HttpPool, HttpRequest

__all__ = ("ChannelState", "ClientCall", "ClientRequest", "encode_header_value")

def encode_header_value(value: str | int | bool) -> bytes: ...

class ChannelState(Sink):
    protocol_version: str | None
    session_id: str | None
    modern: bool
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
    def channel(self) -> ChannelState: ...
    @property
    def status(self) -> int: ...
    @property
    def session_id(self) -> str | None: ...

class ClientCall(ClientRequest):
    def resume(self) -> None: ...
