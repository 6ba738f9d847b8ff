"""Messages of MCP revision 2025-06-18 as msgspec Structs.

Written by tools/generate_types.py from tools/schemas/2025-06-18.json: change the generator, not this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from headrace.types._base import Message

__all__ = (
    "Annotations", "AudioContent", "BaseMetadata", "BlobResourceContents", "BooleanSchema", "CallToolRequest",
    "CallToolRequestParams", "CallToolResult", "CancelledNotification", "CancelledNotificationParams",
    "ClientCapabilities", "ClientCapabilitiesRoots", "ClientNotification", "ClientRequest", "ClientResult",
    "CompleteRequest", "CompleteRequestParams", "CompleteRequestParamsArgument",
    "CompleteRequestParamsContext", "CompleteResult", "CompleteResultCompletion", "ContentBlock",
    "CreateMessageRequest", "CreateMessageRequestParams", "CreateMessageResult", "Cursor", "ElicitRequest",
    "ElicitRequestParams", "ElicitRequestParamsRequestedSchema", "ElicitResult", "EmbeddedResource",
    "EmptyResult", "EnumSchema", "GetPromptRequest", "GetPromptRequestParams", "GetPromptResult",
    "ImageContent", "Implementation", "InitializeRequest", "InitializeRequestParams", "InitializeResult",
    "InitializedNotification", "JSONRPCError", "JSONRPCErrorError", "JSONRPCMessage", "JSONRPCNotification",
    "JSONRPCRequest", "JSONRPCResponse", "ListPromptsRequest", "ListPromptsRequestParams",
    "ListPromptsResult", "ListResourceTemplatesRequest", "ListResourceTemplatesRequestParams",
    "ListResourceTemplatesResult", "ListResourcesRequest", "ListResourcesRequestParams",
    "ListResourcesResult", "ListRootsRequest", "ListRootsResult", "ListToolsRequest",
    "ListToolsRequestParams", "ListToolsResult", "LoggingLevel", "LoggingMessageNotification",
    "LoggingMessageNotificationParams", "ModelHint", "ModelPreferences", "Notification", "NumberSchema",
    "PaginatedRequest", "PaginatedRequestParams", "PaginatedResult", "PingRequest",
    "PrimitiveSchemaDefinition", "ProgressNotification", "ProgressNotificationParams", "ProgressToken",
    "Prompt", "PromptArgument", "PromptListChangedNotification", "PromptMessage", "PromptReference",
    "ReadResourceRequest", "ReadResourceRequestParams", "ReadResourceResult", "Request", "RequestId",
    "Resource", "ResourceContents", "ResourceLink", "ResourceListChangedNotification", "ResourceTemplate",
    "ResourceTemplateReference", "ResourceUpdatedNotification", "ResourceUpdatedNotificationParams", "Result",
    "Role", "Root", "RootsListChangedNotification", "SamplingMessage", "ServerCapabilities",
    "ServerCapabilitiesPrompts", "ServerCapabilitiesResources", "ServerCapabilitiesTools",
    "ServerNotification", "ServerRequest", "ServerResult", "SetLevelRequest", "SetLevelRequestParams",
    "StringSchema", "SubscribeRequest", "SubscribeRequestParams", "TextContent", "TextResourceContents",
    "Tool", "ToolAnnotations", "ToolListChangedNotification", "UnsubscribeRequest",
    "UnsubscribeRequestParams",
)


class Annotations(Message, kw_only=True, gc=False, rename={"last_modified": "lastModified"}):
    """Optional annotations for the client."""

    audience: list[Role] | UnsetType = UNSET
    """Describes who the intended customer of this object or data is."""
    last_modified: str | UnsetType = UNSET
    """The moment the resource was last modified, as an ISO 8601 formatted string."""
    priority: int | float | UnsetType = UNSET
    """Describes how important this data is for operating the server."""


class AudioContent(
    Message, kw_only=True, gc=False, tag_field="type", tag="audio",
    rename={"mime_type": "mimeType", "meta": "_meta"},
):
    """Audio provided to or from an LLM."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    """The base64-encoded audio data."""
    mime_type: str
    """The MIME type of the audio."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class BaseMetadata(Message, kw_only=True, gc=False):
    """Base interface for metadata with name (identifier) and title (display name) properties."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""


class ResourceContents(Message, kw_only=True, gc=False, rename={"mime_type": "mimeType", "meta": "_meta"}):
    """The contents of a specific resource or sub-resource."""

    uri: str
    """The URI of this resource."""
    mime_type: str | UnsetType = UNSET
    """The MIME type of this resource, if known."""
    blob: str | UnsetType = UNSET
    """A base64-encoded string representing the binary data of the item."""
    text: str | UnsetType = UNSET
    """The text of the item."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class BlobResourceContents(ResourceContents, kw_only=True, gc=False):
    """``BlobResourceContents`` of the schema."""

    blob: str
    """A base64-encoded string representing the binary data of the item."""


class PrimitiveSchemaDefinition(
    Message, kw_only=True, gc=False,
    rename={"max_length": "maxLength", "min_length": "minLength", "enum_names": "enumNames"},
):
    """Restricted schema definitions that only allow primitive types without nested objects or arrays."""

    type: Literal["boolean", "integer", "number", "string"]
    description: str | UnsetType = UNSET
    format: Literal["date", "date-time", "email", "uri"] | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    maximum: int | float | UnsetType = UNSET
    minimum: int | float | UnsetType = UNSET
    default: bool | UnsetType = UNSET
    enum: list[str] | UnsetType = UNSET
    enum_names: list[str] | UnsetType = UNSET


class BooleanSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``BooleanSchema`` of the schema."""

    type: Literal["boolean"] = "boolean"


class CallToolRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/call"):
    """Used by the client to invoke a tool provided by the server."""

    method: ClassVar[Literal["tools/call"]] = "tools/call"
    params: CallToolRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class CallToolRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``CallToolRequestParams`` of the schema."""

    name: str
    arguments: dict[str, Any] | None | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class CallToolResult(
    Message, kw_only=True, gc=False,
    rename={"is_error": "isError", "structured_content": "structuredContent", "meta": "_meta"},
):
    """The server's response to a tool call."""

    content: list[ContentBlock]
    """A list of content objects that represent the unstructured result of the tool call."""
    is_error: bool | UnsetType = UNSET
    """Whether the tool call ended in an error."""
    structured_content: dict[str, Any] | UnsetType = UNSET
    """An optional JSON object that represents the structured result of the tool call."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class CancelledNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/cancelled",
):
    """This notification can be sent by either side to indicate that it is cancelling a previously- ..."""

    method: ClassVar[Literal["notifications/cancelled"]] = "notifications/cancelled"
    params: CancelledNotificationParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class CancelledNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"request_id": "requestId", "meta": "_meta"},
):
    """``CancelledNotificationParams`` of the schema."""

    request_id: RequestId
    """The ID of the request to cancel."""
    reason: str | UnsetType = UNSET
    """An optional string describing the reason for the cancellation."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ClientCapabilities(Message, kw_only=True, gc=False):
    """Capabilities a client may support."""

    elicitation: dict[str, Any] | UnsetType = UNSET
    """Present if the client supports elicitation from the server."""
    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Experimental, non-standard capabilities that the client supports."""
    roots: ClientCapabilitiesRoots | UnsetType = UNSET
    """Present if the client supports listing roots."""
    sampling: dict[str, Any] | UnsetType = UNSET
    """Present if the client supports sampling from an LLM."""


class ClientCapabilitiesRoots(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the client supports listing roots."""

    list_changed: bool | UnsetType = UNSET
    """Whether the client supports notifications for changes to the roots list."""


class CompleteRequest(Message, kw_only=True, gc=False, tag_field="method", tag="completion/complete"):
    """A request from the client to the server, to ask for completion options."""

    method: ClassVar[Literal["completion/complete"]] = "completion/complete"
    params: CompleteRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class CompleteRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``CompleteRequestParams`` of the schema."""

    argument: CompleteRequestParamsArgument
    """The argument's information."""
    ref: PromptReference | ResourceTemplateReference
    context: CompleteRequestParamsContext | UnsetType = UNSET
    """Additional, optional context for completions."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class CompleteRequestParamsArgument(Message, kw_only=True, gc=False):
    """The argument's information."""

    name: str
    """The name of the argument."""
    value: str
    """The value of the argument to use for completion matching."""


class CompleteRequestParamsContext(Message, kw_only=True, gc=False):
    """Additional, optional context for completions."""

    arguments: dict[str, str] | UnsetType = UNSET
    """Previously-resolved variables in a URI template or prompt."""


class CompleteResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The server's response to a completion/complete request."""

    completion: CompleteResultCompletion
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class CompleteResultCompletion(Message, kw_only=True, gc=False, rename={"has_more": "hasMore"}):
    """``CompleteResultCompletion`` of the schema."""

    values: list[str]
    """An array of completion values."""
    has_more: bool | UnsetType = UNSET
    """Indicates whether there are additional completion options beyond those provided in the current ..."""
    total: int | UnsetType = UNSET
    """The total number of completion options available."""


class CreateMessageRequest(Message, kw_only=True, gc=False, tag_field="method", tag="sampling/createMessage"):
    """A request from the server to sample an LLM via the client."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class CreateMessageRequestParams(
    Message, kw_only=True, gc=False,
    rename={
        "max_tokens": "maxTokens",
        "include_context": "includeContext",
        "model_preferences": "modelPreferences",
        "stop_sequences": "stopSequences",
        "system_prompt": "systemPrompt",
        "meta": "_meta",
    },
):
    """``CreateMessageRequestParams`` of the schema."""

    max_tokens: int
    """The requested maximum number of tokens to sample (to prevent runaway completions)."""
    messages: list[SamplingMessage]
    include_context: Literal["allServers", "none", "thisServer"] | UnsetType = UNSET
    """A request to include context from one or more MCP servers (including the caller), to be attached ..."""
    metadata: dict[str, Any] | UnsetType = UNSET
    """Optional metadata to pass through to the LLM provider."""
    model_preferences: ModelPreferences | UnsetType = UNSET
    """The server's preferences for which model to select."""
    stop_sequences: list[str] | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    """An optional system prompt the server wants to use for sampling."""
    temperature: int | float | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class CreateMessageResult(
    Message, kw_only=True, gc=False,
    rename={"stop_reason": "stopReason", "meta": "_meta"},
):
    """The client's response to a sampling/create_message request from the server."""

    content: TextContent | ImageContent | AudioContent
    model: str
    """The name of the model that generated the message."""
    role: Role
    stop_reason: str | UnsetType = UNSET
    """The reason why sampling stopped, if known."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ElicitRequest(Message, kw_only=True, gc=False, tag_field="method", tag="elicitation/create"):
    """A request from the server to elicit additional information from the user via the client."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ElicitRequestParams(
    Message, kw_only=True, gc=False,
    rename={"requested_schema": "requestedSchema", "meta": "_meta"},
):
    """``ElicitRequestParams`` of the schema."""

    message: str
    """The message to present to the user."""
    requested_schema: ElicitRequestParamsRequestedSchema
    """A restricted subset of JSON Schema."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ElicitRequestParamsRequestedSchema(Message, kw_only=True, gc=False):
    """A restricted subset of JSON Schema."""

    properties: dict[str, PrimitiveSchemaDefinition]
    type: Literal["object"] = "object"
    required: list[str] | UnsetType = UNSET


class ElicitResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The client's response to an elicitation request."""

    action: Literal["accept", "cancel", "decline"]
    """The user action in response to the elicitation. - 'accept'."""
    content: dict[str, str | int | bool | float] | UnsetType = UNSET
    """The submitted form data, only present when action is 'accept'."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class EmbeddedResource(
    Message, kw_only=True, gc=False, tag_field="type", tag="resource",
    rename={"meta": "_meta"},
):
    """The contents of a resource, embedded into a prompt or tool call result."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class EnumSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``EnumSchema`` of the schema."""

    enum: list[str]
    type: Literal["string"] = "string"


class GetPromptRequest(Message, kw_only=True, gc=False, tag_field="method", tag="prompts/get"):
    """Used by the client to get a prompt provided by the server."""

    method: ClassVar[Literal["prompts/get"]] = "prompts/get"
    params: GetPromptRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class GetPromptRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``GetPromptRequestParams`` of the schema."""

    name: str
    """The name of the prompt or prompt template."""
    arguments: dict[str, str] | None | UnsetType = UNSET
    """Arguments to use for templating the prompt."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class GetPromptResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The server's response to a prompts/get request from the client."""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET
    """An optional description for the prompt."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ImageContent(
    Message, kw_only=True, gc=False, tag_field="type", tag="image",
    rename={"mime_type": "mimeType", "meta": "_meta"},
):
    """An image provided to or from an LLM."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    """The base64-encoded image data."""
    mime_type: str
    """The MIME type of the image."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class Implementation(Message, kw_only=True, gc=False):
    """Describes the name and version of an MCP implementation, with an optional title for UI ..."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    version: str
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""


class InitializeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="initialize"):
    """This request is sent from the client to the server when it first connects, asking it to begin ..."""

    method: ClassVar[Literal["initialize"]] = "initialize"
    params: InitializeRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class InitializeRequestParams(
    Message, kw_only=True, gc=False,
    rename={"client_info": "clientInfo", "protocol_version": "protocolVersion", "meta": "_meta"},
):
    """``InitializeRequestParams`` of the schema."""

    capabilities: dict[str, Any]
    client_info: Implementation
    protocol_version: str
    """The latest version of the Model Context Protocol that the client supports."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class InitializeResult(
    Message, kw_only=True, gc=False,
    rename={"protocol_version": "protocolVersion", "server_info": "serverInfo", "meta": "_meta"},
):
    """After receiving an initialize request from the client, the server sends this response."""

    capabilities: dict[str, Any]
    protocol_version: str
    """The version of the Model Context Protocol that the server wants to use."""
    server_info: Implementation
    instructions: str | UnsetType = UNSET
    """Instructions describing how to use the server and its features."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class InitializedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/initialized",
):
    """This notification is sent from the client to the server after initialization has finished."""

    method: ClassVar[Literal["notifications/initialized"]] = "notifications/initialized"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class JSONRPCError(Message, kw_only=True):
    """A response to a request that indicates an error occurred."""

    error: JSONRPCErrorError
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None | UnsetType = UNSET


class JSONRPCErrorError(Message, kw_only=True):
    """``JSONRPCErrorError`` of the schema."""

    code: int
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class JSONRPCMessage(Message, kw_only=True):
    """Refers to any valid JSON-RPC object that can be decoded off the wire, or encoded to be sent."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    result: Result | UnsetType = UNSET
    error: JSONRPCErrorError | UnsetType = UNSET


class JSONRPCNotification(Message, kw_only=True, gc=False):
    """A notification which does not expect a response."""

    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: dict[str, Any] | UnsetType = UNSET


class JSONRPCRequest(Message, kw_only=True, gc=False):
    """A request that expects a response."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: dict[str, Any] | UnsetType = UNSET


class JSONRPCResponse(Message, kw_only=True, gc=False):
    """A successful (non-error) response to a request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: Result


class ListPromptsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="prompts/list"):
    """Sent from the client to request a list of prompts and prompt templates the server has."""

    method: ClassVar[Literal["prompts/list"]] = "prompts/list"
    params: ListPromptsRequestParams | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ListPromptsRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ListPromptsRequestParams`` of the schema."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ListPromptsResult(
    Message, kw_only=True, gc=False,
    rename={"next_cursor": "nextCursor", "meta": "_meta"},
):
    """The server's response to a prompts/list request from the client."""

    prompts: list[Prompt]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListResourceTemplatesRequest(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="resources/templates/list",
):
    """Sent from the client to request a list of resource templates the server has."""

    method: ClassVar[Literal["resources/templates/list"]] = "resources/templates/list"
    params: ListResourceTemplatesRequestParams | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ListResourceTemplatesRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ListResourceTemplatesRequestParams`` of the schema."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ListResourceTemplatesResult(
    Message, kw_only=True, gc=False,
    rename={"resource_templates": "resourceTemplates", "next_cursor": "nextCursor", "meta": "_meta"},
):
    """The server's response to a resources/templates/list request from the client."""

    resource_templates: list[ResourceTemplate]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListResourcesRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/list"):
    """Sent from the client to request a list of resources the server has."""

    method: ClassVar[Literal["resources/list"]] = "resources/list"
    params: ListResourcesRequestParams | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ListResourcesRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ListResourcesRequestParams`` of the schema."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ListResourcesResult(
    Message, kw_only=True, gc=False,
    rename={"next_cursor": "nextCursor", "meta": "_meta"},
):
    """The server's response to a resources/list request from the client."""

    resources: list[Resource]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListRootsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="roots/list"):
    """Sent from the server to request a list of root URIs from the client."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ListRootsResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The client's response to a roots/list request from the server."""

    roots: list[Root]
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListToolsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/list"):
    """Sent from the client to request a list of tools the server has."""

    method: ClassVar[Literal["tools/list"]] = "tools/list"
    params: ListToolsRequestParams | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ListToolsRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ListToolsRequestParams`` of the schema."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ListToolsResult(Message, kw_only=True, gc=False, rename={"next_cursor": "nextCursor", "meta": "_meta"}):
    """The server's response to a tools/list request from the client."""

    tools: list[Tool]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class LoggingMessageNotification(Message, kw_only=True, tag_field="method", tag="notifications/message"):
    """Notification of a log message passed from server to client."""

    method: ClassVar[Literal["notifications/message"]] = "notifications/message"
    params: LoggingMessageNotificationParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class LoggingMessageNotificationParams(Message, kw_only=True, rename={"meta": "_meta"}):
    """``LoggingMessageNotificationParams`` of the schema."""

    data: Any
    """The data to be logged, such as a string message or an object."""
    level: LoggingLevel
    """The severity of this log message."""
    logger: str | UnsetType = UNSET
    """An optional name of the logger issuing this message."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ModelHint(Message, kw_only=True, gc=False):
    """Hints to use for model selection."""

    name: str | UnsetType = UNSET
    """A hint for a model name."""


class ModelPreferences(
    Message, kw_only=True, gc=False,
    rename={
        "cost_priority": "costPriority",
        "intelligence_priority": "intelligencePriority",
        "speed_priority": "speedPriority",
    },
):
    """The server's preferences for model selection, requested of the client during sampling."""

    cost_priority: int | float | UnsetType = UNSET
    """How much to prioritize cost when selecting a model."""
    hints: list[ModelHint] | UnsetType = UNSET
    """Optional hints to use for model selection."""
    intelligence_priority: int | float | UnsetType = UNSET
    """How much to prioritize intelligence and capabilities when selecting a model."""
    speed_priority: int | float | UnsetType = UNSET
    """How much to prioritize sampling speed (latency) when selecting a model."""


class Notification(Message, kw_only=True, gc=False):
    """``Notification`` of the schema."""

    method: str
    params: dict[str, Any] | UnsetType = UNSET


class NumberSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``NumberSchema`` of the schema."""

    type: Literal["integer", "number"]


class PaginatedRequest(Message, kw_only=True, gc=False):
    """``PaginatedRequest`` of the schema."""

    method: str
    params: PaginatedRequestParams | UnsetType = UNSET


class PaginatedRequestParams(Message, kw_only=True, gc=False):
    """``PaginatedRequestParams`` of the schema."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""


class PaginatedResult(Message, kw_only=True, gc=False, rename={"next_cursor": "nextCursor", "meta": "_meta"}):
    """``PaginatedResult`` of the schema."""

    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class PingRequest(Message, kw_only=True, gc=False, tag_field="method", tag="ping"):
    """A ping, issued by either the server or the client, to check that the other party is still alive."""

    method: ClassVar[Literal["ping"]] = "ping"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ProgressNotification(Message, kw_only=True, gc=False, tag_field="method", tag="notifications/progress"):
    """An out-of-band notification used to inform the receiver of a progress update for a long-running ..."""

    method: ClassVar[Literal["notifications/progress"]] = "notifications/progress"
    params: ProgressNotificationParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class ProgressNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"progress_token": "progressToken", "meta": "_meta"},
):
    """``ProgressNotificationParams`` of the schema."""

    progress: int | float
    """The progress thus far."""
    progress_token: ProgressToken
    """The progress token which was given in the initial request, used to associate this notification ..."""
    message: str | UnsetType = UNSET
    """An optional message describing the current progress."""
    total: int | float | UnsetType = UNSET
    """Total number of items to process (or total progress required), if known."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class Prompt(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """A prompt or prompt template that the server offers."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    arguments: list[PromptArgument] | UnsetType = UNSET
    """A list of arguments to use for templating the prompt."""
    description: str | UnsetType = UNSET
    """An optional description of what this prompt provides."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class PromptArgument(Message, kw_only=True, gc=False):
    """Describes an argument that a prompt can accept."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    description: str | UnsetType = UNSET
    """A human-readable description of the argument."""
    required: bool | UnsetType = UNSET
    """Whether this argument must be provided."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""


class PromptListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/prompts/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of prompts it ..."""

    method: ClassVar[Literal["notifications/prompts/list_changed"]] = "notifications/prompts/list_changed"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class PromptMessage(Message, kw_only=True, gc=False):
    """Describes a message returned as part of a prompt."""

    content: ContentBlock
    role: Role


class PromptReference(Message, kw_only=True, gc=False, tag_field="type", tag="ref/prompt"):
    """Identifies a prompt."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""


class ReadResourceRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/read"):
    """Sent from the client to the server, to read a specific resource URI."""

    method: ClassVar[Literal["resources/read"]] = "resources/read"
    params: ReadResourceRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ReadResourceRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ReadResourceRequestParams`` of the schema."""

    uri: str
    """The URI of the resource to read."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class ReadResourceResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The server's response to a resources/read request from the client."""

    contents: list[ResourceContents]
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class Request(Message, kw_only=True, gc=False):
    """``Request`` of the schema."""

    method: str
    params: dict[str, Any] | UnsetType = UNSET


class Resource(Message, kw_only=True, gc=False, rename={"mime_type": "mimeType", "meta": "_meta"}):
    """A known resource that the server is capable of reading."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    uri: str
    """The URI of this resource."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    description: str | UnsetType = UNSET
    """A description of what this resource represents."""
    mime_type: str | UnsetType = UNSET
    """The MIME type of this resource, if known."""
    size: int | UnsetType = UNSET
    """The size of the raw resource content, in bytes (i.e., before base64 encoding or any ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ResourceLink(
    Message, kw_only=True, gc=False, tag_field="type", tag="resource_link",
    rename={"mime_type": "mimeType", "meta": "_meta"},
):
    """A resource that the server is capable of reading, included in a prompt or tool call result."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    uri: str
    """The URI of this resource."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    description: str | UnsetType = UNSET
    """A description of what this resource represents."""
    mime_type: str | UnsetType = UNSET
    """The MIME type of this resource, if known."""
    size: int | UnsetType = UNSET
    """The size of the raw resource content, in bytes (i.e., before base64 encoding or any ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ResourceListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/resources/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of resources ..."""

    method: ClassVar[Literal["notifications/resources/list_changed"]] = "notifications/resources/list_changed"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class ResourceTemplate(
    Message, kw_only=True, gc=False,
    rename={"uri_template": "uriTemplate", "mime_type": "mimeType", "meta": "_meta"},
):
    """A template description for resources available on the server."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    uri_template: str
    """A URI template (according to RFC 6570) that can be used to construct resource URIs."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    description: str | UnsetType = UNSET
    """A description of what this template is for."""
    mime_type: str | UnsetType = UNSET
    """The MIME type for all resources that match this template."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ResourceTemplateReference(Message, kw_only=True, gc=False, tag_field="type", tag="ref/resource"):
    """A reference to a resource or resource template definition."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str
    """The URI or URI template of the resource."""


class ResourceUpdatedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/resources/updated",
):
    """A notification from the server to the client, informing it that a resource has changed and may ..."""

    method: ClassVar[Literal["notifications/resources/updated"]] = "notifications/resources/updated"
    params: ResourceUpdatedNotificationParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class ResourceUpdatedNotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ResourceUpdatedNotificationParams`` of the schema."""

    uri: str
    """The URI of the resource that has been updated."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class Root(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Represents a root directory or file that the server can operate on."""

    uri: str
    """The URI identifying the root."""
    name: str | UnsetType = UNSET
    """An optional name for the root."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class RootsListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/roots/list_changed",
):
    """A notification from the client to the server, informing it that the list of roots has changed."""

    method: ClassVar[Literal["notifications/roots/list_changed"]] = "notifications/roots/list_changed"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class SamplingMessage(Message, kw_only=True, gc=False):
    """Describes a message issued to or received from an LLM API."""

    content: TextContent | ImageContent | AudioContent
    role: Role


class ServerCapabilities(Message, kw_only=True, gc=False):
    """Capabilities that a server may support."""

    completions: dict[str, Any] | UnsetType = UNSET
    """Present if the server supports argument autocompletion suggestions."""
    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Experimental, non-standard capabilities that the server supports."""
    logging: dict[str, Any] | UnsetType = UNSET
    """Present if the server supports sending log messages to the client."""
    prompts: ServerCapabilitiesPrompts | UnsetType = UNSET
    """Present if the server offers any prompt templates."""
    resources: ServerCapabilitiesResources | UnsetType = UNSET
    """Present if the server offers any resources to read."""
    tools: ServerCapabilitiesTools | UnsetType = UNSET
    """Present if the server offers any tools to call."""


class ServerCapabilitiesPrompts(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the server offers any prompt templates."""

    list_changed: bool | UnsetType = UNSET
    """Whether this server supports notifications for changes to the prompt list."""


class ServerCapabilitiesResources(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the server offers any resources to read."""

    list_changed: bool | UnsetType = UNSET
    """Whether this server supports notifications for changes to the resource list."""
    subscribe: bool | UnsetType = UNSET
    """Whether this server supports subscribing to resource updates."""


class ServerCapabilitiesTools(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the server offers any tools to call."""

    list_changed: bool | UnsetType = UNSET
    """Whether this server supports notifications for changes to the tool list."""


class SetLevelRequest(Message, kw_only=True, gc=False, tag_field="method", tag="logging/setLevel"):
    """A request from the client to the server, to enable or adjust logging."""

    method: ClassVar[Literal["logging/setLevel"]] = "logging/setLevel"
    params: SetLevelRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class SetLevelRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``SetLevelRequestParams`` of the schema."""

    level: LoggingLevel
    """The level of logging that the client wants to receive from the server."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class StringSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``StringSchema`` of the schema."""

    type: Literal["string"] = "string"


class SubscribeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/subscribe"):
    """Sent from the client to request resources/updated notifications from the server whenever a ..."""

    method: ClassVar[Literal["resources/subscribe"]] = "resources/subscribe"
    params: SubscribeRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class SubscribeRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``SubscribeRequestParams`` of the schema."""

    uri: str
    """The URI of the resource to subscribe to."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class TextContent(Message, kw_only=True, gc=False, tag_field="type", tag="text", rename={"meta": "_meta"}):
    """Text provided to or from an LLM."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    """The text content of the message."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class TextResourceContents(ResourceContents, kw_only=True, gc=False):
    """``TextResourceContents`` of the schema."""

    text: str
    """The text of the item."""


class Tool(
    Message, kw_only=True, gc=False,
    rename={"input_schema": "inputSchema", "output_schema": "outputSchema", "meta": "_meta"},
):
    """Definition for a tool the client can call."""

    input_schema: dict[str, Any]
    """A JSON Schema object defining the expected parameters for the tool."""
    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    annotations: ToolAnnotations | UnsetType = UNSET
    """Optional additional tool information."""
    description: str | UnsetType = UNSET
    """A human-readable description of the tool."""
    output_schema: dict[str, Any] | UnsetType = UNSET
    """An optional JSON Schema object defining the structure of the tool's output returned in the ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ToolAnnotations(
    Message, kw_only=True, gc=False,
    rename={
        "destructive_hint": "destructiveHint",
        "idempotent_hint": "idempotentHint",
        "open_world_hint": "openWorldHint",
        "read_only_hint": "readOnlyHint",
    },
):
    """Additional properties describing a Tool to clients."""

    destructive_hint: bool | UnsetType = UNSET
    """If true, the tool may perform destructive updates to its environment."""
    idempotent_hint: bool | UnsetType = UNSET
    """If true, calling the tool repeatedly with the same arguments will have no additional effect on ..."""
    open_world_hint: bool | UnsetType = UNSET
    """If true, this tool may interact with an 'open world' of external entities."""
    read_only_hint: bool | UnsetType = UNSET
    """If true, the tool does not modify its environment."""
    title: str | UnsetType = UNSET
    """A human-readable title for the tool."""


class ToolListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/tools/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of tools it ..."""

    method: ClassVar[Literal["notifications/tools/list_changed"]] = "notifications/tools/list_changed"
    params: dict[str, Any] | UnsetType = UNSET
    jsonrpc: Literal["2.0"] | UnsetType = UNSET


class UnsubscribeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/unsubscribe"):
    """Sent from the client to request cancellation of resources/updated notifications from the server."""

    method: ClassVar[Literal["resources/unsubscribe"]] = "resources/unsubscribe"
    params: UnsubscribeRequestParams
    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class UnsubscribeRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``UnsubscribeRequestParams`` of the schema."""

    uri: str
    """The URI of the resource to unsubscribe from."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


ClientNotification: TypeAlias = (
    CancelledNotification | InitializedNotification | ProgressNotification | RootsListChangedNotification
)
ClientRequest: TypeAlias = (
    InitializeRequest | PingRequest | ListResourcesRequest | ListResourceTemplatesRequest |
    ReadResourceRequest | SubscribeRequest | UnsubscribeRequest | ListPromptsRequest | GetPromptRequest |
    ListToolsRequest | CallToolRequest | SetLevelRequest | CompleteRequest
)
Result: TypeAlias = dict[str, Any]
if TYPE_CHECKING:
    ClientResult: TypeAlias = Result | CreateMessageResult | ListRootsResult | ElicitResult | dict[str, Any]
else:
    ClientResult = dict[str, Any]
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Cursor: TypeAlias = str
"""An opaque token used to represent a cursor for pagination."""
EmptyResult: TypeAlias = Result
LoggingLevel: TypeAlias = (
    Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]
)
"""The severity of a log message."""
ProgressToken: TypeAlias = str | int
"""A progress token, used to associate progress notifications with the original request."""
RequestId: TypeAlias = str | int
"""A uniquely identifying ID for a request in JSON-RPC."""
Role: TypeAlias = Literal["assistant", "user"]
"""The sender or recipient of messages and data in a conversation."""
ServerNotification: TypeAlias = (
    CancelledNotification | ProgressNotification | ResourceListChangedNotification |
    ResourceUpdatedNotification | PromptListChangedNotification | ToolListChangedNotification |
    LoggingMessageNotification
)
ServerRequest: TypeAlias = PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest
if TYPE_CHECKING:
    ServerResult: TypeAlias = (
        Result | InitializeResult | ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult |
        ListPromptsResult | GetPromptResult | ListToolsResult | CallToolResult | CompleteResult | dict[str,
        Any]
    )
else:
    ServerResult = dict[str, Any]
