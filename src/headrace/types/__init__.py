"""Message types of every protocol revision, as msgspec Structs.

One module a revision, written from the official schemas and loaded when first used: ``of("2025-11-25")``,
or ``headrace.types.v2025_11_25``. The names that results are built with come from the newest revision and
can be imported from here: ``from headrace.types import TextContent``. They encode to valid messages of
older revisions as long as only members and content kinds of that revision are used.

Optional members that are absent are :data:`UNSET` (which is false), so that absent, ``null``, ``0`` and
``""`` stay apart. Unknown members are ignored when decoding (JR-16) and survive in ``_meta``, capabilities,
tool schemas and other open objects, which are plain dictionaries.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from headrace.jsonrpc import R5, REVISIONS
from headrace.types._base import Message
from headrace.types._relaxed import decode_relaxed

if TYPE_CHECKING:
    from headrace.types import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
    from headrace.types.v2026_07_28 import (
        Annotations,
        AudioContent,
        BlobResourceContents,
        BooleanSchema,
        CallToolResult,
        CompleteResult,
        CompleteResultCompletion,
        ContentBlock,
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestFormParams,
        ElicitRequestParams,
        ElicitRequestURLParams,
        ElicitResult,
        EmbeddedResource,
        GetPromptResult,
        Icon,
        ImageContent,
        Implementation,
        ListRootsResult,
        LoggingLevel,
        ModelHint,
        ModelPreferences,
        NumberSchema,
        PrimitiveSchemaDefinition,
        Prompt,
        PromptArgument,
        PromptMessage,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceContents,
        ResourceLink,
        ResourceTemplate,
        ResourceTemplateReference,
        Role,
        Root,
        SamplingMessage,
        SamplingMessageContentBlock,
        StringSchema,
        TextContent,
        TextResourceContents,
        TitledMultiSelectEnumSchema,
        TitledSingleSelectEnumSchema,
        Tool,
        ToolAnnotations,
        ToolChoice,
        ToolResultContent,
        ToolUseContent,
        UntitledMultiSelectEnumSchema,
        UntitledSingleSelectEnumSchema,
    )

__all__ = (
    "UNSET", "Annotations", "AudioContent", "BlobResourceContents", "BooleanSchema", "CallToolResult",
    "CompleteResult", "CompleteResultCompletion", "ContentBlock", "CreateMessageRequestParams",
    "CreateMessageResult", "ElicitRequestFormParams", "ElicitRequestParams", "ElicitRequestURLParams",
    "ElicitResult", "EmbeddedResource", "GetPromptResult", "Icon", "ImageContent", "Implementation",
    "ListRootsResult", "LoggingLevel", "Message", "ModelHint", "ModelPreferences", "NumberSchema",
    "PrimitiveSchemaDefinition", "Prompt", "PromptArgument", "PromptMessage", "PromptReference",
    "ReadResourceResult", "Resource", "ResourceContents", "ResourceLink", "ResourceTemplate",
    "ResourceTemplateReference", "Role", "Root", "SamplingMessage", "SamplingMessageContentBlock",
    "StringSchema", "TextContent", "TextResourceContents", "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema", "Tool", "ToolAnnotations", "ToolChoice", "ToolResultContent",
    "ToolUseContent", "UnsetType", "UntitledMultiSelectEnumSchema", "UntitledSingleSelectEnumSchema",
    "decode_relaxed", "of", "v2024_11_05", "v2025_03_26", "v2025_06_18", "v2025_11_25", "v2026_07_28",
)  # fmt: skip

_MODULES = {"v" + revision.replace("-", "_"): revision for revision in REVISIONS}


def of(revision: str) -> ModuleType:
    """The module with the types of one revision, for example ``of("2025-11-25")``.

    Raises ValueError when ``revision`` is not one of :data:`headrace.jsonrpc.REVISIONS`.
    """
    if revision not in REVISIONS:
        raise ValueError(f"unknown protocol revision {revision!r}; known: {', '.join(REVISIONS)}")
    return import_module(f"{__name__}.v{revision.replace('-', '_')}")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return of(_MODULES[name])
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(of(R5), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
