"""What processes of a server share: in one process for tests, in Redis between processes and machines.

The interface is :class:`headrace.protocol.backplane.Backplane`.
"""

from headrace.hosting.backplane.memory import MemoryBackplane, MemoryHub
from headrace.hosting.backplane.redis import RedisBackplane

__all__ = ("MemoryBackplane", "MemoryHub", "RedisBackplane")
