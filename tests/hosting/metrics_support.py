"""The text of a scrape, read back by Prometheus' own parser."""

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


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
