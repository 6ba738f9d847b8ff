#!/bin/sh
# The command that the conformance suite runs for each client scenario: client.py, but not for authorization, which is
# not offered. The suite starts all of them at once; here they take turns, a few at a time.
case "$MCP_CONFORMANCE_SCENARIO" in
auth/*) echo "authorization is not offered" >&2; exit 2 ;;
esac
exec flock "$CONFORMANCE_LOCK.$(($$ % 3))" "$CONFORMANCE_PYTHON" "$(dirname "$0")/client.py" "$@"
