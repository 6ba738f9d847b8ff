"""Runs the trials of a script: each is an async function whose name begins with ``trial_``; prints {name: outcome}.

    SCRIPT LOOP [NAME...]        the outcome is "ok", or a traceback
"""

import asyncio
import inspect
import json
import logging
import sys
import traceback
import warnings

import anyio

FOREIGN = {"_shutdown_watcher"}  # sse_starlette's, which stays
LIMIT = 60  # seconds for each trial


def run(module):
    loop, *names = sys.argv[1:]
    warnings.simplefilter("ignore")
    for category in (ResourceWarning, RuntimeWarning):
        warnings.simplefilter("error", category)
    logging.getLogger().addHandler(logging.NullHandler())
    found = {name: value for name, value in module.items() if name.startswith("trial_") and inspect.iscoroutinefunction(value)}
    outcomes = {}
    for name, trial in found.items():
        if names and name not in names:
            continue
        for label, arguments in getattr(trial, "ways", {"": ()}).items():
            outcomes[f"{name}{label}"] = anyio.run(once, trial, arguments, backend_options={"use_uvloop": loop == "uvloop"})
    print(json.dumps(outcomes))


def over(**ways):
    """Runs a trial once for each of the values, which it is given."""

    def mark(trial):
        trial.ways = {f"[{label}]": (value,) for label, value in ways.items()}
        return trial

    return mark


async def once(trial, arguments):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    before = asyncio.all_tasks()
    try:
        with anyio.fail_after(LIMIT):
            await trial(*arguments)
        for _ in range(100):
            left = {task for task in asyncio.all_tasks() - before if task.get_coro().__name__ not in FOREIGN}
            if not left:
                break
            await asyncio.sleep(0.05)
        assert not left, f"tasks are left: {left}"
        assert not faults, f"the loop was told of {faults}"
    except BaseException:
        return traceback.format_exc()
    return "ok"
