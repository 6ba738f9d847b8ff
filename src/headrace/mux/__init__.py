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

__all__ = (
    "AnyMethod",
    "Captured",
    "Diverted",
    "Exchange",
    "FrameSink",
    "FunctionHandler",
    "Gate",
    "Handler",
    "Mux",
    "PendingCall",
    "RawResult",
    "Revision",
    "Runtime",
    "Sink",
    "capture",
    "live_objects",
    "serve_batch",
)
