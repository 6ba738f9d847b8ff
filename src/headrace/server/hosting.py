"""Hosting a server: stdio, HTTP, unix and TCP line streams. What is done here knows nothing of servers but their
sessions, so it lives with the transports."""

from headrace.transports.hosting import run, run_serving, serve

__all__ = ("run", "run_serving", "serve")
