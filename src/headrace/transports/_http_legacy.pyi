from headrace.transports._http_exchange import HttpExchange

__all__ = ("LegacyStream",)

class LegacyStream(HttpExchange): ...
