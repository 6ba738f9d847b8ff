from headrace.transports._http_endpoint import Connection

__all__ = ("RequestLink",)

class RequestLink(Connection): ...
