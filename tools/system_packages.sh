#!/usr/bin/env bash
# usage: system_packages.sh COMMAND...   installs the Debian package of each command that is missing (the names agree).
# What cannot be installed is one line: the tests that need it are skipped.
set -u
missing=()
for name in "$@"; do command -v "$name" >/dev/null || missing+=("$name"); done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed (needs root and apt): ${missing[*]}; tests that use them are skipped"
    exit 0
fi
echo "installing ${missing[*]}"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get -q update && apt-get -q install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    echo "not installed: ${missing[*]} ($(tail -n 1 "$log")); tests that use them are skipped"
fi
rm -f "$log"
