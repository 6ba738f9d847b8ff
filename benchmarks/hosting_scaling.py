"""What a second worker brings: the same load on one worker and on two, in turns.

python benchmarks/hosting_scaling.py [--rounds N] [--seconds S] [--json]

The load is the same for both: `headrace bench`, which needs some 6 us of CPU a call and runs on the same processors. So the
call has to do work of its own for the second worker to have a processor: about a millisecond of Python, and a tenth of
it. The plain echo, of which the generator needs as much as the server, is shown for what it is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APP = """
from headrace import Server
app = Server("scaling", version="1")

@app.tool(inline=True)
def work(rounds: int) -> int:
    return sum(n * n for n in range(rounds))
"""
WORK = {"1 ms of Python": 20_000, "0.1 ms of Python": 2_000, "nothing": 0}
CONNECTIONS = 32


def throughput(folder: str, workers: int, rounds: int, seconds: float) -> float:
    """Right answers a second."""
    command = [sys.executable, "-m", "headrace", "serve", f"{folder}/scaling_app.py", "--http", "127.0.0.1:0"]
    server = subprocess.Popen([*command, "--workers", str(workers)], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        url = next(line.split(" on ")[1].split()[0] for line in server.stderr if " on http" in line)
        out = subprocess.run(
            [sys.executable, "-m", "headrace", "bench", url, "--tool", "work", "--args", json.dumps({"rounds": rounds}),
             "--connections", str(CONNECTIONS), "--duration", f"{seconds:g}s", "--warmup", "500ms", "--json", "-"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return float(json.loads(out)["totals"]["per_second"])
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {name: {1: [], 2: []} for name in WORK}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "scaling_app.py").write_text(APP)
        for _ in range(options.rounds):
            for name, rounds in WORK.items():
                for workers in (1, 2):
                    found[name][workers].append(throughput(folder, workers, rounds, options.seconds))
    rows = [
        {
            "work": name,
            "one": statistics.median(each[1]),
            "two": statistics.median(each[2]),
            "ratio": statistics.median(two / one for one, two in zip(each[1], each[2], strict=True)),
        }
        for name, each in found.items()
    ]
    if options.json:
        print(json.dumps({"processors": os.cpu_count(), "date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=1))
        return
    print(f"{'a call does':18} {'1 worker':>12} {'2 workers':>12} {'ratio':>7}   ({os.cpu_count()} processors, medians)")
    for row in rows:
        print(f"{row['work']:18} {row['one']:>10,.0f}/s {row['two']:>10,.0f}/s {row['ratio']:>6.2f}x")


if __name__ == "__main__":
    main()
