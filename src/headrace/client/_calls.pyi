from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from headrace.client.core import ProgressCallback
from headrace.client.headers import ToolHeaders
from headrace.client.recovery import Recovery
from headrace.client.results import CallResult
from headrace.mux import Mux, PendingCall, Sink

__all__ = ("ToolCall", "ToolCaller")

class ToolCaller:
    _mux: Mux
    _sink: Sink
    _http: Any
    _recovery: Recovery | None
    _headers: ToolHeaders | None
    _prefixes: dict[str, bytes]
    _output_schemas: dict[str, Any]
    _tail: bytes
    _timeout: float
    _direct: bool
    _read_call: Callable[[bytes], Any]
    _decode_call: Callable[[bytes], Any]
    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        reset_timeout_on_progress: bool | None = None,
        max_total_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> Coroutine[Any, Any, CallResult]: ...

class ToolCall(PendingCall, Coroutine[Any, Any, CallResult]):
    __name__: str
    __qualname__: str
    @property
    def cr_running(self) -> bool: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any: ...
    def close(self) -> None: ...
