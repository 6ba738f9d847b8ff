#!/usr/bin/env bash
# Builds headrace for the other CPythons found here (3.11, 3.12, 3.13) into build/pyNNN, for the benchmarks:
# build/pyNNN/bin/python with what it needs, the package in build/pyNNN/lib. What is not installed is one line.
#
# usage: build_pythons.sh PYTHON   (the one that is left out: it has its build already)
set -uo pipefail
cd "$(dirname "$0")/.."

. tools/find_python.sh

mine=$("$1" -c "import sys; print('%d.%d' % sys.version_info[:2])")
for version in 3.11 3.12 3.13; do
  [ "$version" = "$mine" ] && continue
  python=$(find_python "$version")
  if [ -z "$python" ]; then
    echo "CPython $version: not installed, skipped"
    continue
  fi
  home=build/py${version/./}
  stamp=$(cat $(git ls-files src csrc setup.py pyproject.toml) | cksum)
  if [ -e "$home/.built" ] && [ "$(cat "$home/.built")" = "$stamp" ]; then
    continue
  fi
  echo "CPython $version: compiling into $home"
  mkdir -p "$home"
  if { test -x "$home/bin/python" || "$python" -m venv "$home"; } >"$home.log" 2>&1 &&
    "$home/bin/python" -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); print(*p['project']['dependencies'], *p['build-system']['requires'], sep='\n')" >"$home/requirements.txt" &&
    "$home/bin/python" -m pip install -q -r "$home/requirements.txt" >>"$home.log" 2>&1 &&
    "$home/bin/python" setup.py -q build_py --build-lib "$home/lib" build_ext --build-lib "$home/lib" --build-temp "$home/tmp" --parallel 2 >>"$home.log" 2>&1; then
    echo "$stamp" >"$home/.built"
  else
    echo "CPython $version: could not be built, see $home.log"
  fi
done
