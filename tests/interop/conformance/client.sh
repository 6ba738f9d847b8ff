#!/bin/sh
# The command that the conformance suite runs for each client scenario: client.py, but not for authorization, which is
# not offered. The scenario that measures a delay has the machine for itself; the others run side by side.
case "$MCP_CONFORMANCE_SCENARIO" in
auth/*) echo "authorization is not offered" >&2; exit 2 ;;
sse-retry) share=-x ;;
*) share=-s ;;
esac
exec flock "$share" "$CONFORMANCE_LOCK" "$CONFORMANCE_PYTHON" "$(dirname "$0")/client.py" "$@"
