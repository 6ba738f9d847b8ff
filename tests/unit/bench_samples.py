"""Reports as runs leave them, made from a seed: for tests of the table, the page and comparisons."""

import math
import random

from headrace.bench._histogram import Histogram
from headrace.bench.report import (
    ErrorCount,
    Generator,
    Load,
    Machine,
    MixPart,
    OperationResult,
    Report,
    Second,
    ServerInfo,
    ServerUsage,
    Target,
    Totals,
    latency_of,
)


def sample(*, seed=1, seconds=10, rate=30_000, speed=1.0, names=("echo", "tools/list"), errors=(), noise=0.02, server=True,
           open_loop=None, limit=False, name="http://127.0.0.1:8000/mcp"):
    """A report of ``seconds`` with ``rate * speed`` calls a second; ``errors`` are (kind, count, sample)."""
    chance = random.Random(seed)
    parts, whole = [], Histogram()
    failed = sum(count for _, count, _ in errors)
    ok = 0
    over_time = []
    per_op = [Histogram() for _ in names]
    for second in range(seconds):
        histogram = Histogram()
        drawn = max(int(rate * speed * (1 + chance.gauss(0, noise))), 1)
        for i in range(min(drawn, 800)):
            ns = int(1e6 / speed * (1.2 + math.exp(chance.gauss(-0.6, 0.7))) * (8 if chance.random() < 0.004 else 1))
            histogram.record(ns)
            per_op[i % len(names)].record(ns)
        whole.merge(histogram)
        ok += drawn
        over_time.append(
            Second(
                second=second, ok=drawn, failed=failed // seconds + (failed % seconds if second == seconds // 2 else 0),
                p50=histogram.value_at(50) / 1e3, p99=histogram.value_at(99) / 1e3, max=histogram.max / 1e3,
                server_cpu=0.9 + chance.gauss(0, 0.02) if server else None,
                server_rss=31_000_000 + second * 4096 if server else None,
            )
        )
    parts = [
        OperationResult(name=each, weight=len(names) - i, ok=ok // len(names), failed=failed if i == 0 else 0,
                        per_second=ok / seconds / len(names), latency=latency_of(per_op[i]))
        for i, each in enumerate(names)
    ]
    return Report(
        started="2026-11-30T06:00:00Z",
        machine=Machine(cpu="Sample CPU <2>", cores=2, system="Linux 6.1 x86_64", python="CPython 3.11.7", headrace="0.1.0"),
        target=Target(kind="http", name=name, revision="2026-07-28", server=ServerInfo(name="weather", version="1.0.0")),
        load=Load(connections=64, duration_s=float(seconds), warmup_s=1.0, rate=open_loop,
                  operations=[MixPart(name=each, weight=len(names) - i) for i, each in enumerate(names)]),
        totals=Totals(seconds=float(seconds), completed=ok + failed, ok=ok, failed=failed, per_second=ok / seconds,
                      bytes_out=ok * 410, bytes_in=ok * 310, reconnects=3 if errors else 0),
        latency=latency_of(whole, corrected=open_loop is not None),
        operations=parts,
        errors=[ErrorCount(kind=kind, count=count, sample=text) for kind, count, text in errors],
        over_time=over_time,
        server=ServerUsage(pid=4242, cpu_s=0.9 * seconds, cpu_us_per_call=0.9 * seconds * 1e6 / max(ok, 1), cores=0.9,
                           rss_start=31_000_000, rss_max=31_200_000, rss_end=31_100_000) if server else None,
        generator=Generator(cpu_s=0.5 * seconds, cpu_us_per_call=0.5 * seconds * 1e6 / max(ok, 1), busiest=0.97 if limit else 0.5,
                            limit=limit, says="the load process was 97 % busy: the server could do more; add --processes 2"
                            if limit else "the load process was 50 % busy"),
    )  # fmt: skip
