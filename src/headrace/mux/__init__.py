"""The multiplexer (L4): JSON-RPC calls and requests over sinks, without any event loop."""

from headrace.mux._mux import (
    AnyMethod,
    Captured,
    Diverted,
    Exchange,
    FrameSink,
    FunctionHandler,
    Handler,
    Mux,
    Observed,
    PendingCall,
    RawResult,
    Revision,
    Runtime,
    Sink,
    capture,
    live_objects,
    serve_batch,
)
from headrace.mux.gate import Gate
from headrace.mux.names import LSP, MCP, NO_NAMES, Names
from headrace.mux.observer import Observer, Observers

__all__ = (
    "LSP",
    "MCP",
    "NO_NAMES",
    "AnyMethod",
    "Captured",
    "Diverted",
    "Exchange",
    "FrameSink",
    "FunctionHandler",
    "Gate",
    "Handler",
    "Mux",
    "Names",
    "Observed",
    "Observer",
    "Observers",
    "PendingCall",
    "RawResult",
    "Revision",
    "Runtime",
    "Sink",
    "capture",
    "live_objects",
    "serve_batch",
)
