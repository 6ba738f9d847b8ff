from headrace.transports._link import LineLink

__all__ = ("LengthLink",)

class LengthLink(LineLink): ...
