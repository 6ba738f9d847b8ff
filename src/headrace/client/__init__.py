"""The client (L7): ``connect`` opens a connection to a server and negotiates, ``Client`` calls it."""

from headrace.client.client import Client
from headrace.client.connector import connect
from headrace.client.inputs import ElicitParams
from headrace.client.listen import Change, Listen
from headrace.client.results import CallResult, CompletionResult, PromptResult, ResourceResult

__all__ = (
    "CallResult",
    "Change",
    "Client",
    "CompletionResult",
    "ElicitParams",
    "Listen",
    "PromptResult",
    "ResourceResult",
    "connect",
)
