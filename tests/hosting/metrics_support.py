"""A server that is watched, and the text of a scrape, read back by Prometheus' own parser."""

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

SHOP = """
import asyncio
import os
from headrace import Server, ToolError

app = Server("shop", version="1")


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def fails() -> str:
    raise ToolError("no")


@app.tool
async def slow(ms: int) -> str:
    await asyncio.sleep(ms / 1000)
    return "slept"


@app.tool
async def who() -> str:
    return str(os.getpid())
"""


@pytest.fixture
def shop(tmp_path):
    """A directory with that server in it."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def parsed(text):
    """Name -> {labels as sorted pairs: value} of all samples; and the family of each name."""
    samples, families = {}, {}
    for family in text_string_to_metric_families(text if isinstance(text, str) else text.decode()):
        families[family.name] = family
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in samples.setdefault(sample.name, {}), (sample.name, labels)
            samples[sample.name][labels] = sample.value
    return samples, families


def total(samples, name, **labels):
    """The sum of the samples whose labels include these."""
    return sum(
        value for found, value in samples.get(name, {}).items() if labels.items() <= dict(found).items()
    )


def fetch(url, method="GET", **headers):
    """(status, body, headers) over the loopback network, whatever the status."""
    request = urllib.request.Request(url, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode(), exc.headers
