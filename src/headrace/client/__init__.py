"""The client (L7): ``connect`` opens a connection to a server and negotiates, ``Client`` calls it."""

from headrace.client.client import Client
from headrace.client.connector import connect
from headrace.client.results import CallResult

__all__ = ("CallResult", "Client", "connect")
