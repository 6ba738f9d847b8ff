#!/usr/bin/env bash
# Builds the sdist, then on every CPython found here (3.11 and later) a wheel from that sdist in a fresh
# environment, installs it there and runs the tests with state on the installed package. What is not
# installed is skipped with one line.
#
# usage: try_dist.sh PYTHON [FIRST_PYTHON_ONLY]
set -euo pipefail
cd "$(dirname "$0")/.."
first=$1
only_first=${2:-}
work=build/try
rm -rf "$work" && mkdir -p "$work"
"$first" setup.py -q sdist --dist-dir "$work" >/dev/null
sdist=$(ls "$work"/headrace-*.tar.gz)

. tools/find_python.sh

mine=$("$first" -c "import sys; print('%d.%d' % sys.version_info[:2])")
failed=0
for version in 3.11 3.12 3.13; do
  if [ -n "$only_first" ] && [ "$version" != "$mine" ]; then continue; fi
  python=$(find_python "$version")
  [ "$version" = "$mine" ] && python=$first
  if [ -z "$python" ]; then
    echo "CPython $version: not installed, skipped"
    continue
  fi
  venv=$work/venv-$version
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install -q -U pip
  # Unoptimised: what is tried is that it builds and behaves, not how fast it is.
  CFLAGS=-O0 "$venv/bin/python" -m pip install -q "$sdist[cli,redis]" pytest pytest-timeout hypothesis pytest-xdist pytest-rerunfailures pydantic
  (cd "$work" && "../../$venv/bin/headrace" --version)
  if "$venv/bin/python" -m pytest -q -p no:cacheprovider -n 3 --reruns 2 -o pythonpath="tests tests/unit" \
      tests/unit/test_mux*.py tests/unit/test_link.py tests/unit/test_task*.py tests/unit/test_server.py \
      tests/unit/test_http_server*.py tests/unit/test_client*.py tests/unit/test_fdio.py tests/unit/test_lines.py \
      tests/hosting/test_backplane_memory.py tests/hosting/test_fanout.py tests/hosting/test_shared_sessions.py \
      tests/hosting/test_shared_streams.py; then
    echo "CPython $version: ok ($("$venv/bin/python" -V))"
  else
    echo "CPython $version: FAILED"
    failed=1
  fi
done
exit $failed
