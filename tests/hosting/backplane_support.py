"""What tests of backplanes share: waiting for something to become true, and listeners that keep what they hear."""

import asyncio
import logging

from headrace.limits import DEFAULT

LOG = logging.getLogger("test.backplane")


async def until(true, seconds=10.0):
    """Waits until `true()` is true; fails when it does not become so."""
    for _ in range(int(seconds / 0.005)):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


class Heard:
    """A started backplane that keeps what it was told."""

    def __init__(self, backplane, *kinds):
        self.backplane = backplane
        self.messages = []
        self.gaps = 0
        self.emptied = 0
        self.changes = []
        self.dead = []
        for kind in kinds or ("note",):
            backplane.receive(kind, lambda sender, parts, kind=kind: self.messages.append((sender, kind, parts)))
        backplane.on_gap(self._gap)
        backplane.on_emptied(self._emptied)
        backplane.on_available(self.changes.append)
        backplane.on_death(self.dead.append)

    def _gap(self):
        self.gaps += 1

    def _emptied(self):
        self.emptied += 1

    @property
    def texts(self):
        return [parts[0] for _, _, parts in self.messages]

    async def start(self, limits=DEFAULT):
        await self.backplane.start(limits, LOG)
        return self
