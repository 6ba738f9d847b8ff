"""The client's rows, which e2e_client.py measures: its ``clients(seconds=, rounds=)`` returns marks."""

from __future__ import annotations

import importlib

from record import Record

GROUP = "Client"


def client(record: Record) -> None:
    try:
        measure = importlib.import_module("e2e_client").clients
    except (ImportError, AttributeError) as error:
        record.leave_out(f"client rows: {error}")
        record.unmeasured(GROUP, "CPU a call of the official Python client, one at a time over HTTP", ">= 30 x")
        record.unmeasured(GROUP, "CPU of our server for the same calls", "<= 1.5 x")
        record.unmeasured(GROUP, "throughput at 10,000 in flight against 256", ">= 75%")
        return
    for mark in measure(seconds=record.seconds, rounds=record.rounds):
        record.marks.append({"group": GROUP, "value": None, "limit": None, "by": "", **mark})
