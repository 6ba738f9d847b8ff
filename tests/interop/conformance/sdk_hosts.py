"""Runs the suite's server side against one server of the official SDK under two hosts: the SDK's own, and headrace's.

`python -m interop.conformance.sdk_hosts` prints the totals of both and every check that passes on theirs alone; it ends
with status 1 if there is one.
"""

import contextlib
import os
import subprocess
import sys

from interop import support
from interop.conformance import run

HERE = run.HERE
# What the suite only notes, without a verdict, of a server that answers with JSON where a stream is not needed.
OPTIONAL = {"server-sse-streams-functional"}
HOSTS = ("theirs", "ours")


@contextlib.contextmanager
def serving(host):
    """The everything-server under `host`; gives its URL."""
    port = support.free_port()
    env = {**os.environ, "PYTHONPATH": str(support.SOURCE)}
    process = subprocess.Popen(
        [str(support.PEERS), str(HERE / "sdk_everything.py"), host, str(port)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
    )  # fmt: skip
    try:
        support.wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        support.end(process, 5)


def outcomes(host, wires=run.WIRES):
    """{(wire, scenario, check id, which one of this id): Check} of everything that the suite checks of a server."""
    known = run.scenarios()
    found = {}
    with serving(host) as url:
        for wire in wires:
            for scenario in run.run_server(url, wire, known):
                seen = {}
                for check in scenario.checks:
                    seen[check.id] = number = seen.get(check.id, 0) + 1
                    found[wire, scenario.name, check.id, number] = check
    return found


def worse(theirs, ours):
    """One line for each check that passes on theirs and does not on ours."""
    lines = []
    for key, check in theirs.items():
        mine = ours.get(key)
        if mine is None and check.id in OPTIONAL:
            continue
        if check.status == "SUCCESS" and (mine is None or mine.status != "SUCCESS"):
            status = "is missing" if mine is None else f"{mine.status}: {mine.errorMessage or mine.description}"
            lines.append(f"{' '.join(map(str, key))}: {status}")
    return lines


def totals(found):
    """How many checks of each status."""
    counts = {}
    for check in found.values():
        counts[check.status] = counts.get(check.status, 0) + 1
    return counts


def main():
    found = {host: outcomes(host) for host in HOSTS}
    for host in HOSTS:
        print(f"{host}: {totals(found[host])}")
    for line in worse(found["ours"], found["theirs"]):
        print(f"better: {line}")
    lines = worse(found["theirs"], found["ours"])
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
