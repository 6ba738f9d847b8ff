"""python -m chaos [TRIAL ...]: runs the trials one after the other, prints what callers saw. Status 1: a promise broke."""

import asyncio
import sys
import time

from chaos.machines import Redis
from chaos.scenarios import TRIALS, needs_redis


def main():
    names = sys.argv[1:] or list(TRIALS)
    if unknown := [name for name in names if name not in TRIALS]:
        print(f"chaos: there is no trial {unknown[0]!r}; there are {', '.join(TRIALS)}", file=sys.stderr)
        return 2
    broken = 0
    for name in names:
        trial = TRIALS[name]
        if needs_redis(name) and not Redis.installed():
            print(f"{name}: skipped, redis-server is not installed")
            continue
        print(f"{name}: {' '.join(trial.__doc__.split())}", flush=True)
        begun = time.monotonic()
        outcome = asyncio.run(trial())
        for label, value in outcome.counts.items():
            print(f"  {label:26} {value:,}" if isinstance(value, int) else f"  {label:26} {value}")
        for fault in outcome.faults:
            print(f"  BROKEN: {fault}")
        broken += bool(outcome.faults)
        print(f"  {'held' if not outcome.faults else 'did not hold'}, {time.monotonic() - begun:.0f} s", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
