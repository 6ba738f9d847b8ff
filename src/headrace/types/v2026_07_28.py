"""Messages of MCP revision 2026-07-28 as msgspec Structs.

Written by tools/generate_types.py from tools/schemas/2026-07-28.json: change the generator, not this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from headrace.types._base import Message

__all__ = (
    "Annotations", "AudioContent", "BaseMetadata", "BlobResourceContents", "BooleanSchema", "CacheableResult",
    "CallToolRequest", "CallToolRequestParams", "CallToolResult", "CallToolResultResponse",
    "CallToolResultResponseResult", "CancelledNotification", "CancelledNotificationParams",
    "ClientCapabilities", "ClientCapabilitiesElicitation", "ClientCapabilitiesSampling", "ClientNotification",
    "ClientRequest", "ClientResult", "CompleteRequest", "CompleteRequestParams",
    "CompleteRequestParamsArgument", "CompleteRequestParamsContext", "CompleteResult",
    "CompleteResultCompletion", "CompleteResultResponse", "ContentBlock", "CreateMessageRequest",
    "CreateMessageRequestParams", "CreateMessageResult", "Cursor", "DiscoverRequest", "DiscoverResult",
    "DiscoverResultResponse", "ElicitRequest", "ElicitRequestFormParams",
    "ElicitRequestFormParamsRequestedSchema", "ElicitRequestParams", "ElicitRequestURLParams", "ElicitResult",
    "EmbeddedResource", "EmptyResult", "EnumSchema", "Error", "GetPromptRequest", "GetPromptRequestParams",
    "GetPromptResult", "GetPromptResultResponse", "GetPromptResultResponseResult", "HeaderMismatchError",
    "HeaderMismatchErrorError", "Icon", "Icons", "ImageContent", "Implementation", "InputRequest",
    "InputRequests", "InputRequiredResult", "InputResponse", "InputResponseRequestParams", "InputResponses",
    "InternalError", "InvalidParamsError", "InvalidRequestError", "JSONArray", "JSONObject",
    "JSONRPCErrorResponse", "JSONRPCMessage", "JSONRPCNotification", "JSONRPCRequest", "JSONRPCResponse",
    "JSONRPCResultResponse", "JSONValue", "LegacyTitledEnumSchema", "ListPromptsRequest", "ListPromptsResult",
    "ListPromptsResultResponse", "ListResourceTemplatesRequest", "ListResourceTemplatesResult",
    "ListResourceTemplatesResultResponse", "ListResourcesRequest", "ListResourcesResult",
    "ListResourcesResultResponse", "ListRootsRequest", "ListRootsRequestParams", "ListRootsResult",
    "ListToolsRequest", "ListToolsResult", "ListToolsResultResponse", "LoggingLevel",
    "LoggingMessageNotification", "LoggingMessageNotificationParams", "MetaObject", "MethodNotFoundError",
    "MissingRequiredClientCapabilityError", "MissingRequiredClientCapabilityErrorError",
    "MissingRequiredClientCapabilityErrorErrorData", "ModelHint", "ModelPreferences", "MultiSelectEnumSchema",
    "Notification", "NotificationMetaObject", "NotificationParams", "NumberSchema", "PaginatedRequest",
    "PaginatedRequestParams", "PaginatedResult", "ParseError", "PrimitiveSchemaDefinition",
    "PrimitiveSchemaDefinitionItems", "ProgressNotification", "ProgressNotificationParams", "ProgressToken",
    "Prompt", "PromptArgument", "PromptListChangedNotification", "PromptMessage", "PromptReference",
    "ReadResourceRequest", "ReadResourceRequestParams", "ReadResourceResult", "ReadResourceResultResponse",
    "ReadResourceResultResponseResult", "Request", "RequestId", "RequestMetaObject", "RequestParams",
    "Resource", "ResourceContents", "ResourceLink", "ResourceListChangedNotification",
    "ResourceRequestParams", "ResourceTemplate", "ResourceTemplateReference", "ResourceUpdatedNotification",
    "ResourceUpdatedNotificationParams", "Result", "ResultMetaObject", "ResultType", "Role", "Root",
    "SamplingMessage", "SamplingMessageContentBlock", "ServerCapabilities", "ServerCapabilitiesPrompts",
    "ServerCapabilitiesResources", "ServerCapabilitiesTools", "ServerNotification", "ServerResult",
    "SingleSelectEnumSchema", "StringSchema", "SubscriptionFilter", "SubscriptionsAcknowledgedNotification",
    "SubscriptionsAcknowledgedNotificationParams", "SubscriptionsListenRequest",
    "SubscriptionsListenRequestParams", "SubscriptionsListenResult", "SubscriptionsListenResultMetaObject",
    "SubscriptionsListenResultResponse", "TextContent", "TextResourceContents", "TitledMultiSelectEnumSchema",
    "TitledMultiSelectEnumSchemaItems", "TitledMultiSelectEnumSchemaItemsAnyOf",
    "TitledSingleSelectEnumSchema", "TitledSingleSelectEnumSchemaOneOf", "Tool", "ToolAnnotations",
    "ToolChoice", "ToolListChangedNotification", "ToolResultContent", "ToolUseContent",
    "UnsupportedProtocolVersionError", "UnsupportedProtocolVersionErrorError",
    "UnsupportedProtocolVersionErrorErrorData", "UntitledMultiSelectEnumSchema",
    "UntitledMultiSelectEnumSchemaItems", "UntitledSingleSelectEnumSchema",
)


class Annotations(Message, kw_only=True, gc=False, rename={"last_modified": "lastModified"}):
    """Optional annotations for the client."""

    audience: list[Role] | UnsetType = UNSET
    """Describes who the intended audience of this object or data is."""
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


class BlobResourceContents(ResourceContents, kw_only=True, gc=False):
    """``BlobResourceContents`` of the schema."""

    blob: str
    """A base64-encoded string representing the binary data of the item."""


class PrimitiveSchemaDefinition(
    Message, kw_only=True, gc=False,
    rename={
        "max_length": "maxLength",
        "min_length": "minLength",
        "one_of": "oneOf",
        "max_items": "maxItems",
        "min_items": "minItems",
        "enum_names": "enumNames",
    },
):
    """Restricted schema definitions that only allow primitive types without nested objects or arrays."""

    type: Literal["array", "boolean", "integer", "number", "string"]
    default: str | int | float | bool | list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    format: Literal["date", "date-time", "email", "uri"] | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    maximum: int | float | UnsetType = UNSET
    minimum: int | float | UnsetType = UNSET
    enum: list[str] | UnsetType = UNSET
    """Array of enum values to choose from."""
    one_of: list[TitledSingleSelectEnumSchemaOneOf] | UnsetType = UNSET
    """Array of enum options with values and display labels."""
    items: PrimitiveSchemaDefinitionItems | UnsetType = UNSET
    """Schema for the array items."""
    max_items: int | UnsetType = UNSET
    """Maximum number of items to select."""
    min_items: int | UnsetType = UNSET
    """Minimum number of items to select."""
    enum_names: list[str] | UnsetType = UNSET
    """(Legacy) Display names for enum values."""


class BooleanSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``BooleanSchema`` of the schema."""

    type: Literal["boolean"] = "boolean"
    default: bool | UnsetType = UNSET


class CacheableResult(
    Message, kw_only=True, gc=False,
    rename={"cache_scope": "cacheScope", "result_type": "resultType", "ttl_ms": "ttlMs", "meta": "_meta"},
):
    """A result that supports a time-to-live (TTL) hint for client-side caching."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    meta: dict[str, Any] | UnsetType = UNSET


class CallToolRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/call"):
    """Used by the client to invoke a tool provided by the server."""

    method: ClassVar[Literal["tools/call"]] = "tools/call"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: CallToolRequestParams


class CallToolRequestParams(
    Message, kw_only=True, gc=False,
    rename={"meta": "_meta", "input_responses": "inputResponses", "request_state": "requestState"},
):
    """Parameters for a `tools/call` request."""

    name: str
    """The name of the tool."""
    meta: dict[str, Any]
    arguments: dict[str, Any] | None | UnsetType = UNSET
    """Arguments to use for the tool call."""
    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class CallToolResult(
    Message, kw_only=True,
    rename={
        "result_type": "resultType",
        "is_error": "isError",
        "structured_content": "structuredContent",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``tools/call`` request."""

    content: list[ContentBlock]
    """A list of content objects that represent the unstructured result of the tool call."""
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    is_error: bool | UnsetType = UNSET
    """Whether the tool call ended in an error."""
    structured_content: Any = UNSET
    """An optional JSON value that represents the structured result of the tool call."""
    meta: dict[str, Any] | UnsetType = UNSET


class CallToolResultResponse(Message, kw_only=True):
    """A successful response from the server for a ``tools/call`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: CallToolResultResponseResult


class CallToolResultResponseResult(
    Message, kw_only=True,
    rename={
        "result_type": "resultType",
        "input_requests": "inputRequests",
        "request_state": "requestState",
        "is_error": "isError",
        "structured_content": "structuredContent",
        "meta": "_meta",
    },
):
    """Any of InputRequiredResult, CallToolResult: the members of all of them."""

    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    content: list[ContentBlock] | UnsetType = UNSET
    """A list of content objects that represent the unstructured result of the tool call."""
    is_error: bool | UnsetType = UNSET
    """Whether the tool call ended in an error."""
    structured_content: Any = UNSET
    """An optional JSON value that represents the structured result of the tool call."""
    meta: dict[str, Any] | UnsetType = UNSET


class CancelledNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/cancelled",
):
    """This notification is sent by the client to indicate that it is cancelling a request it ..."""

    method: ClassVar[Literal["notifications/cancelled"]] = "notifications/cancelled"
    jsonrpc: Literal["2.0"] = "2.0"
    params: CancelledNotificationParams


class CancelledNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"request_id": "requestId", "meta": "_meta"},
):
    """Parameters for a `notifications/cancelled` notification."""

    request_id: RequestId
    """The ID of the request to cancel."""
    reason: str | UnsetType = UNSET
    """An optional string describing the reason for the cancellation."""
    meta: dict[str, Any] | UnsetType = UNSET


class ClientCapabilities(Message, kw_only=True, gc=False):
    """Capabilities a client may support."""

    elicitation: ClientCapabilitiesElicitation | UnsetType = UNSET
    """Present if the client supports elicitation from the server."""
    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Experimental, non-standard capabilities that the client supports."""
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Optional MCP extensions that the client supports."""
    roots: dict[str, Any] | UnsetType = UNSET
    """Present if the client supports listing roots."""
    sampling: ClientCapabilitiesSampling | UnsetType = UNSET
    """Present if the client supports sampling from an LLM."""


class ClientCapabilitiesElicitation(Message, kw_only=True, gc=False):
    """Present if the client supports elicitation from the server."""

    form: dict[str, Any] | UnsetType = UNSET
    url: dict[str, Any] | UnsetType = UNSET


class ClientCapabilitiesSampling(Message, kw_only=True, gc=False):
    """Present if the client supports sampling from an LLM."""

    context: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports context inclusion via `includeContext` parameter."""
    tools: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports tool use via `tools` and `toolChoice` parameters."""


class ClientNotification(Message, kw_only=True, gc=False, tag_field="method", tag="notifications/cancelled"):
    """This notification is sent by the client to indicate that it is cancelling a request it ..."""

    method: ClassVar[Literal["notifications/cancelled"]] = "notifications/cancelled"
    jsonrpc: Literal["2.0"] = "2.0"
    params: CancelledNotificationParams


class CompleteRequest(Message, kw_only=True, gc=False, tag_field="method", tag="completion/complete"):
    """A request from the client to the server, to ask for completion options."""

    method: ClassVar[Literal["completion/complete"]] = "completion/complete"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: CompleteRequestParams


class CompleteRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `completion/complete` request."""

    argument: CompleteRequestParamsArgument
    """The argument's information."""
    ref: PromptReference | ResourceTemplateReference
    meta: dict[str, Any]
    context: CompleteRequestParamsContext | UnsetType = UNSET
    """Additional, optional context for completions."""


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


class CompleteResult(Message, kw_only=True, gc=False, rename={"result_type": "resultType", "meta": "_meta"}):
    """The result returned by the server for a ``completion/complete`` request."""

    completion: CompleteResultCompletion
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    meta: dict[str, Any] | UnsetType = UNSET


class CompleteResultCompletion(Message, kw_only=True, gc=False, rename={"has_more": "hasMore"}):
    """``CompleteResultCompletion`` of the schema."""

    values: list[str]
    """An array of completion values."""
    has_more: bool | UnsetType = UNSET
    """Indicates whether there are additional completion options beyond those provided in the current ..."""
    total: int | UnsetType = UNSET
    """The total number of completion options available."""


class CompleteResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``completion/complete`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: CompleteResult


class CreateMessageRequest(Message, kw_only=True, tag_field="method", tag="sampling/createMessage"):
    """A request from the server to sample an LLM via the client."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams


class CreateMessageRequestParams(
    Message, kw_only=True,
    rename={
        "max_tokens": "maxTokens",
        "include_context": "includeContext",
        "model_preferences": "modelPreferences",
        "stop_sequences": "stopSequences",
        "system_prompt": "systemPrompt",
        "tool_choice": "toolChoice",
    },
):
    """Parameters for a `sampling/createMessage` request."""

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
    tool_choice: ToolChoice | UnsetType = UNSET
    """Controls how the model uses tools."""
    tools: list[Tool] | UnsetType = UNSET
    """Tools that the model may use during generation."""


class CreateMessageResult(Message, kw_only=True, rename={"stop_reason": "stopReason", "meta": "_meta"}):
    """The result returned by the client for a ``sampling/createMessage`` request."""

    content: TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | list[SamplingMessageContentBlock]
    model: str
    """The name of the model that generated the message."""
    role: Role
    stop_reason: str | UnsetType = UNSET
    """The reason why sampling stopped, if known."""
    meta: dict[str, Any] | UnsetType = UNSET


class DiscoverRequest(Message, kw_only=True, gc=False, tag_field="method", tag="server/discover"):
    """A request from the client asking the server to advertise its supported protocol versions, ..."""

    method: ClassVar[Literal["server/discover"]] = "server/discover"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: RequestParams


class DiscoverResult(
    Message, kw_only=True, gc=False,
    rename={
        "cache_scope": "cacheScope",
        "result_type": "resultType",
        "supported_versions": "supportedVersions",
        "ttl_ms": "ttlMs",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``server/discover`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    capabilities: dict[str, Any]
    """The capabilities of the server."""
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    supported_versions: list[str]
    """MCP Protocol Versions this server supports."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    instructions: str | UnsetType = UNSET
    """Natural-language guidance describing the server and its features."""
    meta: dict[str, Any] | UnsetType = UNSET


class DiscoverResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``server/discover`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: DiscoverResult


class ElicitRequest(Message, kw_only=True, gc=False, tag_field="method", tag="elicitation/create"):
    """A request from the server to elicit additional information from the user via the client."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams


class ElicitRequestParams(Message, kw_only=True, gc=False, rename={"requested_schema": "requestedSchema"}):
    """The parameters for a request to elicit additional information from the user via the client."""

    message: str
    """The message to present to the user describing what information is being requested."""
    mode: Literal["form", "url"] | UnsetType = UNSET
    """The elicitation mode."""
    requested_schema: ElicitRequestFormParamsRequestedSchema | UnsetType = UNSET
    """A restricted subset of JSON Schema."""
    url: str | UnsetType = UNSET
    """The URL that the user should navigate to."""


class ElicitRequestFormParams(
    ElicitRequestParams, kw_only=True, gc=False,
    rename={"requested_schema": "requestedSchema"},
):
    """The parameters for a request to elicit non-sensitive information from the user via a form in the ..."""

    requested_schema: ElicitRequestFormParamsRequestedSchema
    """A restricted subset of JSON Schema."""
    mode: Literal["form"] | UnsetType = UNSET
    """The elicitation mode."""


class ElicitRequestFormParamsRequestedSchema(Message, kw_only=True, gc=False, rename={"schema": "$schema"}):
    """A restricted subset of JSON Schema."""

    properties: dict[str, PrimitiveSchemaDefinition]
    type: Literal["object"] = "object"
    schema: str | UnsetType = UNSET
    required: list[str] | UnsetType = UNSET


class ElicitRequestURLParams(ElicitRequestParams, kw_only=True, gc=False):
    """The parameters for a request to elicit information from the user via a URL in the client."""

    mode: Literal["url"] = "url"
    """The elicitation mode."""
    url: str
    """The URL that the user should navigate to."""


class ElicitResult(Message, kw_only=True, gc=False):
    """The result returned by the client for an ``elicitation/create`` request."""

    action: Literal["accept", "cancel", "decline"]
    """The user action in response to the elicitation. - `'accept'`."""
    content: dict[str, list[str] | str | int | bool | float] | UnsetType = UNSET
    """The submitted form data, only present when action is `'accept'` and mode was `'form'`."""


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


class Error(Message, kw_only=True):
    """``Error`` of the schema."""

    code: int
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class GetPromptRequest(Message, kw_only=True, gc=False, tag_field="method", tag="prompts/get"):
    """Used by the client to get a prompt provided by the server."""

    method: ClassVar[Literal["prompts/get"]] = "prompts/get"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: GetPromptRequestParams


class GetPromptRequestParams(
    Message, kw_only=True, gc=False,
    rename={"meta": "_meta", "input_responses": "inputResponses", "request_state": "requestState"},
):
    """Parameters for a `prompts/get` request."""

    name: str
    """The name of the prompt or prompt template."""
    meta: dict[str, Any]
    arguments: dict[str, str] | None | UnsetType = UNSET
    """Arguments to use for templating the prompt."""
    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class GetPromptResult(Message, kw_only=True, gc=False, rename={"result_type": "resultType", "meta": "_meta"}):
    """The result returned by the server for a ``prompts/get`` request."""

    messages: list[PromptMessage]
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    description: str | UnsetType = UNSET
    """An optional description for the prompt."""
    meta: dict[str, Any] | UnsetType = UNSET


class GetPromptResultResponse(Message, kw_only=True):
    """A successful response from the server for a ``prompts/get`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: GetPromptResultResponseResult


class GetPromptResultResponseResult(
    Message, kw_only=True,
    rename={
        "result_type": "resultType",
        "input_requests": "inputRequests",
        "request_state": "requestState",
        "meta": "_meta",
    },
):
    """Any of InputRequiredResult, GetPromptResult: the members of all of them."""

    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    """An optional description for the prompt."""
    messages: list[PromptMessage] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET


class HeaderMismatchError(Message, kw_only=True):
    """Returned when a server rejects a request because the values in the HTTP headers do not match the ..."""

    error: HeaderMismatchErrorError
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | UnsetType = UNSET


class HeaderMismatchErrorError(Message, kw_only=True):
    """``HeaderMismatchErrorError`` of the schema."""

    code: Literal[-32020] = -32020
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class Icon(Message, kw_only=True, gc=False, rename={"mime_type": "mimeType"}):
    """An optionally-sized icon that can be displayed in a user interface."""

    src: str
    """A standard URI pointing to an icon resource."""
    mime_type: str | UnsetType = UNSET
    """Optional MIME type override if the source MIME type is missing or generic."""
    sizes: list[str] | UnsetType = UNSET
    """Optional array of strings that specify sizes at which the icon can be used."""
    theme: Literal["dark", "light"] | UnsetType = UNSET
    """Optional specifier for the theme this icon is designed for."""


class Icons(Message, kw_only=True, gc=False):
    """Base interface to add `icons` property."""

    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""


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


class Implementation(Message, kw_only=True, gc=False, rename={"website_url": "websiteUrl"}):
    """Describes the MCP implementation."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    version: str
    """The version of this implementation."""
    description: str | UnsetType = UNSET
    """An optional human-readable description of what this implementation does."""
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    website_url: str | UnsetType = UNSET
    """An optional URL of the website for this implementation."""


class InputRequiredResult(
    Message, kw_only=True,
    rename={
        "result_type": "resultType",
        "input_requests": "inputRequests",
        "request_state": "requestState",
        "meta": "_meta",
    },
):
    """An InputRequiredResult sent by the server to indicate that additional input is needed before the ..."""

    result_type: str = "input_required"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET


class InputResponseRequestParams(
    Message, kw_only=True, gc=False,
    rename={"meta": "_meta", "input_responses": "inputResponses", "request_state": "requestState"},
):
    """``InputResponseRequestParams`` of the schema."""

    meta: dict[str, Any]
    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class InternalError(Message, kw_only=True):
    """A JSON-RPC error indicating that an internal error occurred on the receiver."""

    code: Literal[-32603] = -32603
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class InvalidParamsError(Message, kw_only=True):
    """A JSON-RPC error indicating that the method parameters are invalid or malformed."""

    code: Literal[-32602] = -32602
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class InvalidRequestError(Message, kw_only=True):
    """A JSON-RPC error indicating that the request is not a valid request object."""

    code: Literal[-32600] = -32600
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class JSONRPCErrorResponse(Message, kw_only=True):
    """A response to a request that indicates an error occurred."""

    error: Error
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None | UnsetType = UNSET


class JSONRPCMessage(Message, kw_only=True):
    """Refers to any valid JSON-RPC object that can be decoded off the wire, or encoded to be sent."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    result: Result | UnsetType = UNSET
    error: Error | UnsetType = UNSET


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


class JSONRPCResponse(Message, kw_only=True):
    """A response to a request, containing either the result or error."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None | UnsetType = UNSET
    result: Result | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class JSONRPCResultResponse(Message, kw_only=True, gc=False):
    """A successful (non-error) response to a request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: Result


class LegacyTitledEnumSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """Use TitledSingleSelectEnumSchema instead."""

    enum: list[str]
    type: Literal["string"] = "string"
    default: str | UnsetType = UNSET


class ListPromptsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="prompts/list"):
    """Sent from the client to request a list of prompts and prompt templates the server has."""

    method: ClassVar[Literal["prompts/list"]] = "prompts/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams


class ListPromptsResult(
    Message, kw_only=True, gc=False,
    rename={
        "cache_scope": "cacheScope",
        "result_type": "resultType",
        "ttl_ms": "ttlMs",
        "next_cursor": "nextCursor",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``prompts/list`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    prompts: list[Prompt]
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET


class ListPromptsResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``prompts/list`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListPromptsResult


class ListResourceTemplatesRequest(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="resources/templates/list",
):
    """Sent from the client to request a list of resource templates the server has."""

    method: ClassVar[Literal["resources/templates/list"]] = "resources/templates/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams


class ListResourceTemplatesResult(
    Message, kw_only=True, gc=False,
    rename={
        "cache_scope": "cacheScope",
        "resource_templates": "resourceTemplates",
        "result_type": "resultType",
        "ttl_ms": "ttlMs",
        "next_cursor": "nextCursor",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``resources/templates/list`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    resource_templates: list[ResourceTemplate]
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET


class ListResourceTemplatesResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``resources/templates/list`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListResourceTemplatesResult


class ListResourcesRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/list"):
    """Sent from the client to request a list of resources the server has."""

    method: ClassVar[Literal["resources/list"]] = "resources/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams


class ListResourcesResult(
    Message, kw_only=True, gc=False,
    rename={
        "cache_scope": "cacheScope",
        "result_type": "resultType",
        "ttl_ms": "ttlMs",
        "next_cursor": "nextCursor",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``resources/list`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    resources: list[Resource]
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET


class ListResourcesResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``resources/list`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListResourcesResult


class ListRootsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="roots/list"):
    """Sent from the server to request a list of root URIs from the client."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsRequestParams | UnsetType = UNSET


class ListRootsRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``ListRootsRequestParams`` of the schema."""

    meta: dict[str, Any] | UnsetType = UNSET


class ListRootsResult(Message, kw_only=True, gc=False):
    """The result returned by the client for a ``roots/list`` request."""

    roots: list[Root]


class ListToolsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/list"):
    """Sent from the client to request a list of tools the server has."""

    method: ClassVar[Literal["tools/list"]] = "tools/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams


class ListToolsResult(
    Message, kw_only=True, gc=False,
    rename={
        "cache_scope": "cacheScope",
        "result_type": "resultType",
        "ttl_ms": "ttlMs",
        "next_cursor": "nextCursor",
        "meta": "_meta",
    },
):
    """The result returned by the server for a ``tools/list`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    tools: list[Tool]
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET


class ListToolsResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``tools/list`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ListToolsResult


class LoggingMessageNotification(Message, kw_only=True, tag_field="method", tag="notifications/message"):
    """JSONRPCNotification of a log message passed from server to client."""

    method: ClassVar[Literal["notifications/message"]] = "notifications/message"
    jsonrpc: Literal["2.0"] = "2.0"
    params: LoggingMessageNotificationParams


class LoggingMessageNotificationParams(Message, kw_only=True, rename={"meta": "_meta"}):
    """Parameters for a `notifications/message` notification."""

    data: Any
    """The data to be logged, such as a string message or an object."""
    level: LoggingLevel
    """The severity of this log message."""
    logger: str | UnsetType = UNSET
    """An optional name of the logger issuing this message."""
    meta: dict[str, Any] | UnsetType = UNSET


class MethodNotFoundError(Message, kw_only=True):
    """A JSON-RPC error indicating that the requested method does not exist or is not available."""

    code: Literal[-32601] = -32601
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class MissingRequiredClientCapabilityError(Message, kw_only=True, gc=False):
    """Returned when processing a request requires a capability the client did not declare in ..."""

    error: MissingRequiredClientCapabilityErrorError
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | UnsetType = UNSET


class MissingRequiredClientCapabilityErrorError(Message, kw_only=True, gc=False):
    """``MissingRequiredClientCapabilityErrorError`` of the schema."""

    code: Literal[-32021] = -32021
    data: MissingRequiredClientCapabilityErrorErrorData
    message: str
    """A short description of the error."""


class MissingRequiredClientCapabilityErrorErrorData(
    Message, kw_only=True, gc=False,
    rename={"required_capabilities": "requiredCapabilities"},
):
    """``MissingRequiredClientCapabilityErrorErrorData`` of the schema."""

    required_capabilities: dict[str, Any]
    """The capabilities the server requires from the client to process this request."""


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


class NotificationMetaObject(
    Message, kw_only=True, gc=False,
    rename={"subscription_id": "io.modelcontextprotocol/subscriptionId"},
):
    """Extends MetaObject with additional notification-specific fields."""

    subscription_id: RequestId | UnsetType = UNSET
    """Identifies the subscription stream a notification was delivered on."""


class NotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for any notification."""

    meta: dict[str, Any] | UnsetType = UNSET


class NumberSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``NumberSchema`` of the schema."""

    type: Literal["integer", "number"]
    default: int | float | UnsetType = UNSET


class PaginatedRequest(Message, kw_only=True, gc=False):
    """``PaginatedRequest`` of the schema."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: PaginatedRequestParams


class PaginatedRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for paginated requests."""

    meta: dict[str, Any]
    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""


class PaginatedResult(
    Message, kw_only=True, gc=False,
    rename={"result_type": "resultType", "next_cursor": "nextCursor", "meta": "_meta"},
):
    """``PaginatedResult`` of the schema."""

    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET


class ParseError(Message, kw_only=True):
    """A JSON-RPC error indicating that invalid JSON was received by the server."""

    code: Literal[-32700] = -32700
    """The error type that occurred."""
    message: str
    """A short description of the error."""
    data: Any = UNSET
    """Additional information about the error."""


class PrimitiveSchemaDefinitionItems(Message, kw_only=True, gc=False, rename={"any_of": "anyOf"}):
    """Any of UntitledMultiSelectEnumSchemaItems, TitledMultiSelectEnumSchemaItems: the members of all ..."""

    enum: list[str] | UnsetType = UNSET
    """Array of enum values to choose from."""
    type: Literal["string"] | UnsetType = UNSET
    any_of: list[TitledMultiSelectEnumSchemaItemsAnyOf] | UnsetType = UNSET
    """Array of enum options with values and display labels."""


class ProgressNotification(Message, kw_only=True, gc=False, tag_field="method", tag="notifications/progress"):
    """An out-of-band notification used to inform the receiver of a progress update for a long-running ..."""

    method: ClassVar[Literal["notifications/progress"]] = "notifications/progress"
    jsonrpc: Literal["2.0"] = "2.0"
    params: ProgressNotificationParams


class ProgressNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"progress_token": "progressToken", "meta": "_meta"},
):
    """Parameters for a ``notifications/progress`` notification."""

    progress: int | float
    """The progress thus far."""
    progress_token: ProgressToken
    """The progress token which was given in the initial request, used to associate this notification ..."""
    message: str | UnsetType = UNSET
    """An optional message describing the current progress."""
    total: int | float | UnsetType = UNSET
    """Total number of items to process (or total progress required), if known."""
    meta: dict[str, Any] | UnsetType = UNSET


class Prompt(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """A prompt or prompt template that the server offers."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    arguments: list[PromptArgument] | UnsetType = UNSET
    """A list of arguments to use for templating the prompt."""
    description: str | UnsetType = UNSET
    """An optional description of what this prompt provides."""
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET


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
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


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
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: ReadResourceRequestParams


class ReadResourceRequestParams(
    Message, kw_only=True, gc=False,
    rename={"meta": "_meta", "input_responses": "inputResponses", "request_state": "requestState"},
):
    """Parameters for a `resources/read` request."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any]
    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class ReadResourceResult(
    Message, kw_only=True, gc=False,
    rename={"cache_scope": "cacheScope", "result_type": "resultType", "ttl_ms": "ttlMs", "meta": "_meta"},
):
    """The result returned by the server for a ``resources/read`` request."""

    cache_scope: Literal["private", "public"]
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    contents: list[ResourceContents]
    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    ttl_ms: int
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    meta: dict[str, Any] | UnsetType = UNSET


class ReadResourceResultResponse(Message, kw_only=True):
    """A successful response from the server for a ``resources/read`` request."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: ReadResourceResultResponseResult


class ReadResourceResultResponseResult(
    Message, kw_only=True,
    rename={
        "result_type": "resultType",
        "input_requests": "inputRequests",
        "request_state": "requestState",
        "cache_scope": "cacheScope",
        "ttl_ms": "ttlMs",
        "meta": "_meta",
    },
):
    """Any of InputRequiredResult, ReadResourceResult: the members of all of them."""

    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    cache_scope: Literal["private", "public"] | UnsetType = UNSET
    """Indicates the intended scope of the cached response, analogous to HTTP `Cache-Control: public` ..."""
    contents: list[ResourceContents] | UnsetType = UNSET
    ttl_ms: int | UnsetType = UNSET
    """A hint from the server indicating how long (in milliseconds) the client MAY cache this response ..."""
    meta: dict[str, Any] | UnsetType = UNSET


class Request(Message, kw_only=True, gc=False):
    """``Request`` of the schema."""

    method: str
    params: dict[str, Any] | UnsetType = UNSET


class RequestMetaObject(
    Message, kw_only=True, gc=False,
    rename={
        "client_capabilities": "io.modelcontextprotocol/clientCapabilities",
        "protocol_version": "io.modelcontextprotocol/protocolVersion",
        "client_info": "io.modelcontextprotocol/clientInfo",
        "log_level": "io.modelcontextprotocol/logLevel",
        "progress_token": "progressToken",
    },
):
    """Extends MetaObject with additional request-specific fields."""

    client_capabilities: ClientCapabilities
    """The client's capabilities for this specific request."""
    protocol_version: str
    """The MCP Protocol Version being used for this request."""
    client_info: Implementation | UnsetType = UNSET
    """Identifies the client software making the request."""
    log_level: LoggingLevel | UnsetType = UNSET
    """The desired log level for this request."""
    progress_token: ProgressToken | UnsetType = UNSET
    """If specified, the caller is requesting out-of-band progress notifications for this request (as ..."""


class RequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for any request."""

    meta: dict[str, Any]


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
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    mime_type: str | UnsetType = UNSET
    """The MIME type of this resource, if known."""
    size: int | UnsetType = UNSET
    """The size of the raw resource content, in bytes (i.e., before base64 encoding or any ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET


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
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    mime_type: str | UnsetType = UNSET
    """The MIME type of this resource, if known."""
    size: int | UnsetType = UNSET
    """The size of the raw resource content, in bytes (i.e., before base64 encoding or any ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET


class ResourceListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/resources/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of resources ..."""

    method: ClassVar[Literal["notifications/resources/list_changed"]] = "notifications/resources/list_changed"
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


class ResourceRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for resource-related requests."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any]


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
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    mime_type: str | UnsetType = UNSET
    """The MIME type for all resources that match this template."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET


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
    jsonrpc: Literal["2.0"] = "2.0"
    params: ResourceUpdatedNotificationParams


class ResourceUpdatedNotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `notifications/resources/updated` notification."""

    uri: str
    """The URI of the resource that has been updated."""
    meta: dict[str, Any] | UnsetType = UNSET


class ResultMetaObject(
    Message, kw_only=True, gc=False,
    rename={"server_info": "io.modelcontextprotocol/serverInfo"},
):
    """Extends MetaObject with additional result-specific fields."""

    server_info: Implementation | UnsetType = UNSET
    """Identifies the server software producing the response."""


class Root(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Represents a root directory or file that the server can operate on."""

    uri: str
    """The URI identifying the root."""
    name: str | UnsetType = UNSET
    """An optional name for the root."""
    meta: dict[str, Any] | UnsetType = UNSET


class SamplingMessage(Message, kw_only=True, rename={"meta": "_meta"}):
    """Describes a message issued to or received from an LLM API."""

    content: TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | list[SamplingMessageContentBlock]
    role: Role
    meta: dict[str, Any] | UnsetType = UNSET


class ServerCapabilities(Message, kw_only=True, gc=False):
    """Capabilities that a server may support."""

    completions: dict[str, Any] | UnsetType = UNSET
    """Present if the server supports argument autocompletion suggestions."""
    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Experimental, non-standard capabilities that the server supports."""
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Optional MCP extensions that the server supports."""
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


class StringSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``StringSchema`` of the schema."""

    type: Literal["string"] = "string"
    default: str | UnsetType = UNSET


class SubscriptionFilter(
    Message, kw_only=True, gc=False,
    rename={
        "prompts_list_changed": "promptsListChanged",
        "resource_subscriptions": "resourceSubscriptions",
        "resources_list_changed": "resourcesListChanged",
        "tools_list_changed": "toolsListChanged",
        "task_ids": "taskIds",
    },
):
    """The set of notification types a client may opt in to on a ``subscriptions/listen`` request."""

    prompts_list_changed: bool | UnsetType = UNSET
    """If true, receive ``notifications/prompts/list_changed``."""
    resource_subscriptions: list[str] | UnsetType = UNSET
    """Subscribe to ``notifications/resources/updated`` for these resource URIs."""
    resources_list_changed: bool | UnsetType = UNSET
    """If true, receive ``notifications/resources/list_changed``."""
    tools_list_changed: bool | UnsetType = UNSET
    """If true, receive ``notifications/tools/list_changed``."""
    task_ids: list[str] | UnsetType = UNSET
    """Tasks whose status is asked for (tasks extension, SEP-2663)."""


class SubscriptionsAcknowledgedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/subscriptions/acknowledged",
):
    """Sent by the server to acknowledge that a ``subscriptions/listen`` subscription has been ..."""

    method: ClassVar[Literal["notifications/subscriptions/acknowledged"]] = "notifications/subscriptions/acknowledged"
    jsonrpc: Literal["2.0"] = "2.0"
    params: SubscriptionsAcknowledgedNotificationParams


class SubscriptionsAcknowledgedNotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a ``notifications/subscriptions/acknowledged`` notification."""

    notifications: SubscriptionFilter
    """The subset of requested notification types the server agreed to honor."""
    meta: dict[str, Any] | UnsetType = UNSET


class SubscriptionsListenRequest(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="subscriptions/listen",
):
    """Sent from the client to open a long-lived channel for receiving notifications outside the ..."""

    method: ClassVar[Literal["subscriptions/listen"]] = "subscriptions/listen"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: SubscriptionsListenRequestParams


class SubscriptionsListenRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a ``subscriptions/listen`` request."""

    notifications: SubscriptionFilter
    """The notifications the client opts in to on this stream."""
    meta: dict[str, Any]


class SubscriptionsListenResult(
    Message, kw_only=True, gc=False,
    rename={"result_type": "resultType", "meta": "_meta"},
):
    """The response to a ``subscriptions/listen`` request, signalling that the subscription has ended ..."""

    result_type: str = "complete"
    """Indicates the type of the result, which allows the client to determine how to parse the result ..."""
    meta: dict[str, Any]


class SubscriptionsListenResultMetaObject(
    Message, kw_only=True, gc=False,
    rename={
        "subscription_id": "io.modelcontextprotocol/subscriptionId",
        "server_info": "io.modelcontextprotocol/serverInfo",
    },
):
    """Extends ResultMetaObject with the subscription-stream identifier carried by a ..."""

    subscription_id: RequestId
    """Identifies the subscription stream this response closes, so the client can correlate it with the ..."""
    server_info: Implementation | UnsetType = UNSET
    """Identifies the server software producing the response."""


class SubscriptionsListenResultResponse(Message, kw_only=True, gc=False):
    """A successful response from the server for a ``subscriptions/listen`` request, sent when the ..."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    result: SubscriptionsListenResult


class TextContent(Message, kw_only=True, gc=False, tag_field="type", tag="text", rename={"meta": "_meta"}):
    """Text provided to or from an LLM."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    """The text content of the message."""
    annotations: Annotations | UnsetType = UNSET
    """Optional annotations for the client."""
    meta: dict[str, Any] | UnsetType = UNSET


class TextResourceContents(ResourceContents, kw_only=True, gc=False):
    """``TextResourceContents`` of the schema."""

    text: str
    """The text of the item."""


class TitledMultiSelectEnumSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """Schema for multiple-selection enumeration with display titles for each option."""

    items: TitledMultiSelectEnumSchemaItems
    """Schema for array items with enum options and display labels."""
    type: Literal["array"] = "array"
    default: list[str] | UnsetType = UNSET
    """Optional default value."""


class TitledMultiSelectEnumSchemaItems(
    PrimitiveSchemaDefinitionItems, kw_only=True, gc=False,
    rename={"any_of": "anyOf"},
):
    """Schema for array items with enum options and display labels."""

    any_of: list[TitledMultiSelectEnumSchemaItemsAnyOf]
    """Array of enum options with values and display labels."""


class TitledMultiSelectEnumSchemaItemsAnyOf(Message, kw_only=True, gc=False):
    """``TitledMultiSelectEnumSchemaItemsAnyOf`` of the schema."""

    const: str
    """The constant enum value."""
    title: str
    """Display title for this option."""


class TitledSingleSelectEnumSchema(
    PrimitiveSchemaDefinition, kw_only=True, gc=False,
    rename={"one_of": "oneOf"},
):
    """Schema for single-selection enumeration with display titles for each option."""

    one_of: list[TitledSingleSelectEnumSchemaOneOf]
    """Array of enum options with values and display labels."""
    type: Literal["string"] = "string"
    default: str | UnsetType = UNSET
    """Optional default value."""


class TitledSingleSelectEnumSchemaOneOf(Message, kw_only=True, gc=False):
    """``TitledSingleSelectEnumSchemaOneOf`` of the schema."""

    const: str
    """The enum value."""
    title: str
    """Display label for this option."""


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
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    output_schema: dict[str, Any] | UnsetType = UNSET
    """An optional JSON Schema object defining the structure of the tool's output returned in the ..."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    meta: dict[str, Any] | UnsetType = UNSET


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


class ToolChoice(Message, kw_only=True, gc=False):
    """Controls tool selection behavior for sampling requests."""

    mode: Literal["auto", "none", "required"] | UnsetType = UNSET
    """Controls the tool use ability of the model: - `'auto'`."""


class ToolListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/tools/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of tools it ..."""

    method: ClassVar[Literal["notifications/tools/list_changed"]] = "notifications/tools/list_changed"
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


class ToolResultContent(
    Message, kw_only=True, tag_field="type", tag="tool_result",
    rename={
        "tool_use_id": "toolUseId",
        "is_error": "isError",
        "structured_content": "structuredContent",
        "meta": "_meta",
    },
):
    """The result of a tool use, provided by the user back to the assistant."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    content: list[ContentBlock]
    """The unstructured result content of the tool use."""
    tool_use_id: str
    """The ID of the tool use this result corresponds to."""
    is_error: bool | UnsetType = UNSET
    """Whether the tool use resulted in an error."""
    structured_content: Any = UNSET
    """An optional structured result value."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Optional metadata about the tool result."""


class ToolUseContent(
    Message, kw_only=True, gc=False, tag_field="type", tag="tool_use",
    rename={"meta": "_meta"},
):
    """A request from the assistant to call a tool."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    """A unique identifier for this tool use."""
    input: dict[str, Any]
    """The arguments to pass to the tool, conforming to the tool's input schema."""
    name: str
    """The name of the tool to call."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Optional metadata about the tool use."""


class UnsupportedProtocolVersionError(Message, kw_only=True, gc=False):
    """Returned when the request's protocol version is unknown to the server or unsupported (e.g., a ..."""

    error: UnsupportedProtocolVersionErrorError
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | UnsetType = UNSET


class UnsupportedProtocolVersionErrorError(Message, kw_only=True, gc=False):
    """``UnsupportedProtocolVersionErrorError`` of the schema."""

    code: Literal[-32022] = -32022
    data: UnsupportedProtocolVersionErrorErrorData
    message: str
    """A short description of the error."""


class UnsupportedProtocolVersionErrorErrorData(Message, kw_only=True, gc=False):
    """``UnsupportedProtocolVersionErrorErrorData`` of the schema."""

    requested: str
    """The protocol version that was requested by the client."""
    supported: list[str]
    """Protocol versions the server supports."""


class UntitledMultiSelectEnumSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """Schema for multiple-selection enumeration without display titles for options."""

    items: UntitledMultiSelectEnumSchemaItems
    """Schema for the array items."""
    type: Literal["array"] = "array"
    default: list[str] | UnsetType = UNSET
    """Optional default value."""


class UntitledMultiSelectEnumSchemaItems(PrimitiveSchemaDefinitionItems, kw_only=True, gc=False):
    """Schema for the array items."""

    enum: list[str]
    """Array of enum values to choose from."""
    type: Literal["string"] = "string"


class UntitledSingleSelectEnumSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """Schema for single-selection enumeration without display titles for options."""

    enum: list[str]
    """Array of enum values to choose from."""
    type: Literal["string"] = "string"
    default: str | UnsetType = UNSET
    """Optional default value."""


ClientRequest: TypeAlias = (
    DiscoverRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest |
    SubscriptionsListenRequest | ListPromptsRequest | GetPromptRequest | ListToolsRequest | CallToolRequest |
    CompleteRequest
)
Result: TypeAlias = dict[str, Any]
"""Common result fields."""
ClientResult: TypeAlias = Result
"""Common result fields."""
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Cursor: TypeAlias = str
"""An opaque token used to represent a cursor for pagination."""
EmptyResult: TypeAlias = Result
"""Common result fields."""
EnumSchema: TypeAlias = PrimitiveSchemaDefinition
InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest
InputRequests: TypeAlias = dict[str, InputRequest]
"""A map of server-initiated requests that the client must fulfill."""
if TYPE_CHECKING:
    InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult | dict[str, Any]
else:
    InputResponse = dict[str, Any]
InputResponses: TypeAlias = dict[str, InputResponse]
"""A map of client responses to server-initiated requests."""
JSONArray: TypeAlias = list[Any]
JSONObject: TypeAlias = dict[str, Any]
JSONValue: TypeAlias = Any
LoggingLevel: TypeAlias = (
    Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]
)
"""The severity of a log message."""
MetaObject: TypeAlias = dict[str, Any]
"""Represents the contents of a `_meta` field, which clients and servers use to attach additional ..."""
MultiSelectEnumSchema: TypeAlias = PrimitiveSchemaDefinition
ProgressToken: TypeAlias = str | int
"""A progress token, used to associate progress notifications with the original request."""
RequestId: TypeAlias = str | int
"""A uniquely identifying ID for a request in JSON-RPC."""
ResultType: TypeAlias = str
"""Indicates the type of a Result object, allowing the client to determine how to parse the response."""
Role: TypeAlias = Literal["assistant", "user"]
"""The sender or recipient of messages and data in a conversation."""
SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
)
ServerNotification: TypeAlias = (
    CancelledNotification | ProgressNotification | ResourceListChangedNotification |
    SubscriptionsAcknowledgedNotification | ResourceUpdatedNotification | PromptListChangedNotification |
    ToolListChangedNotification | LoggingMessageNotification
)
if TYPE_CHECKING:
    ServerResult: TypeAlias = (
        Result | InputRequiredResult | DiscoverResult | ListResourcesResult | ListResourceTemplatesResult |
        ReadResourceResult | SubscriptionsListenResult | ListPromptsResult | GetPromptResult | ListToolsResult
        | CallToolResult | CompleteResult | dict[str, Any]
    )
else:
    ServerResult = dict[str, Any]
SingleSelectEnumSchema: TypeAlias = PrimitiveSchemaDefinition
