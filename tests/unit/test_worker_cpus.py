"""How many workers `--workers auto` starts."""

import os

import pytest

from headrace.hosting.workers import cpus as worker_cpus
from headrace.hosting.workers.cpus import _quota, cpus, usable_cpus


@pytest.fixture
def groups(tmp_path):
    """A tree of control groups, and the file that says which of them is ours."""

    def make(line, **files):
        (tmp_path / "self").write_text(line)
        for name, text in files.items():
            place = tmp_path / name.replace("__", "/").replace("_DOT_", ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return tmp_path / "self", tmp_path

    return make


def test_the_smallest_quota_on_the_way_up_counts(groups):
    file, root = groups("0::/a/b\n", a__b__cpu_DOT_max="max 100000\n", a__cpu_DOT_max="150000 100000\n")
    assert _quota(file, root) == 1.5


def test_no_quota_is_none(groups):
    assert _quota(*groups("0::/a\n", a__cpu_DOT_max="max 100000\n")) is None
    assert _quota(*groups("nonsense\n")) is None
    file, root = groups("0::/a\n")
    assert _quota(file / "missing", root) is None


def test_control_groups_of_version_1(groups):
    file, root = groups("4:cpu,cpuacct:/x\n", cpu__x__cpu_DOT_cfs_quota_us="200000\n")
    (root / "cpu/x/cpu.cfs_period_us").write_text("100000\n")
    assert _quota(file, root) == 2.0
    (root / "cpu/x/cpu.cfs_quota_us").write_text("-1\n")
    assert _quota(file, root) is None


@pytest.mark.parametrize(("quota", "expected"), [(None, 8), (0.3, 1), (1.5, 2), (4.0, 4), (64.0, 8)])
def test_a_quota_is_rounded_up(monkeypatch, quota, expected):
    monkeypatch.setattr(worker_cpus, "_quota", lambda: quota)
    monkeypatch.setattr(worker_cpus, "cpus", lambda: list(range(8)))
    assert usable_cpus() == expected


def test_the_processors_that_this_process_may_use():
    assert cpus() == sorted(os.sched_getaffinity(0))
