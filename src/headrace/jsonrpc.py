"""Constants of JSON-RPC 2.0 and MCP: error codes, revisions, reserved ``_meta`` keys, method names."""

from typing import Final

__all__ = (
    "CLIENT_CAPABILITIES", "CLIENT_INFO", "HANDSHAKE_REVISIONS", "HEADER_MISMATCH", "INTERNAL_ERROR",
    "INVALID_PARAMS", "INVALID_REQUEST", "LATEST_HANDSHAKE", "LOG_LEVEL", "LOG_LEVELS", "METHOD_NOT_FOUND",
    "MISSING_CLIENT_CAPABILITY", "MODERN_REVISIONS", "NAMED", "PARSE_ERROR", "PROTOCOL_VERSION", "R1", "R2", "R3", "R4",
    "R5", "RESOURCE_NOT_FOUND", "REVISIONS", "SERVER_INFO", "SUBSCRIPTION_ID", "UNSUPPORTED_VERSION",
)  # fmt: skip

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Up to 2025-11-25 (SF-22, JR-31)."""
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

R1: Final = "2024-11-05"
R2: Final = "2025-03-26"
R3: Final = "2025-06-18"
R4: Final = "2025-11-25"
R5: Final = "2026-07-28"
REVISIONS: Final = (R1, R2, R3, R4, R5)
HANDSHAKE_REVISIONS: Final = (R1, R2, R3, R4)
"""Era H: ``initialize``, sessions, messages in both directions."""
MODERN_REVISIONS: Final = (R5,)
"""Era M: no handshake, ``_meta`` on every request."""
LATEST_HANDSHAKE: Final = R4

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
    "tasks/result": "taskId",
}
"""Methods that mean one thing by name, and the member of params that names it (HN-03)."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From low to high (SF-40)."""
