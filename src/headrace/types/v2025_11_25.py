"""Messages of MCP revision 2025-11-25 as msgspec Structs.

Written by tools/generate_types.py from tools/schemas/2025-11-25.json: change the generator, not this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from headrace.types._base import Message

__all__ = (
    "Annotations", "AudioContent", "BaseMetadata", "BlobResourceContents", "BooleanSchema", "CallToolRequest",
    "CallToolRequestParams", "CallToolResult", "CancelTaskRequest", "CancelTaskRequestParams",
    "CancelTaskResult", "CancelledNotification", "CancelledNotificationParams", "ClientCapabilities",
    "ClientCapabilitiesElicitation", "ClientCapabilitiesRoots", "ClientCapabilitiesSampling",
    "ClientCapabilitiesTasks", "ClientCapabilitiesTasksRequests",
    "ClientCapabilitiesTasksRequestsElicitation", "ClientCapabilitiesTasksRequestsSampling",
    "ClientNotification", "ClientRequest", "ClientResult", "CompleteRequest", "CompleteRequestParams",
    "CompleteRequestParamsArgument", "CompleteRequestParamsContext", "CompleteResult",
    "CompleteResultCompletion", "ContentBlock", "CreateMessageRequest", "CreateMessageRequestParams",
    "CreateMessageResult", "CreateTaskResult", "Cursor", "ElicitRequest", "ElicitRequestFormParams",
    "ElicitRequestFormParamsRequestedSchema", "ElicitRequestParams", "ElicitRequestURLParams", "ElicitResult",
    "ElicitationCompleteNotification", "ElicitationCompleteNotificationParams", "EmbeddedResource",
    "EmptyResult", "EnumSchema", "Error", "GetPromptRequest", "GetPromptRequestParams", "GetPromptResult",
    "GetTaskPayloadRequest", "GetTaskPayloadRequestParams", "GetTaskPayloadResult", "GetTaskRequest",
    "GetTaskRequestParams", "GetTaskResult", "Icon", "Icons", "ImageContent", "Implementation",
    "InitializeRequest", "InitializeRequestParams", "InitializeResult", "InitializedNotification",
    "JSONRPCErrorResponse", "JSONRPCMessage", "JSONRPCNotification", "JSONRPCRequest", "JSONRPCResponse",
    "JSONRPCResultResponse", "LegacyTitledEnumSchema", "ListPromptsRequest", "ListPromptsResult",
    "ListResourceTemplatesRequest", "ListResourceTemplatesResult", "ListResourcesRequest",
    "ListResourcesResult", "ListRootsRequest", "ListRootsResult", "ListTasksRequest", "ListTasksResult",
    "ListToolsRequest", "ListToolsResult", "LoggingLevel", "LoggingMessageNotification",
    "LoggingMessageNotificationParams", "ModelHint", "ModelPreferences", "MultiSelectEnumSchema",
    "Notification", "NotificationParams", "NumberSchema", "PaginatedRequest", "PaginatedRequestParams",
    "PaginatedResult", "PingRequest", "PrimitiveSchemaDefinition", "PrimitiveSchemaDefinitionItems",
    "ProgressNotification", "ProgressNotificationParams", "ProgressToken", "Prompt", "PromptArgument",
    "PromptListChangedNotification", "PromptMessage", "PromptReference", "ReadResourceRequest",
    "ReadResourceRequestParams", "ReadResourceResult", "RelatedTaskMetadata", "Request", "RequestId",
    "RequestParams", "Resource", "ResourceContents", "ResourceLink", "ResourceListChangedNotification",
    "ResourceRequestParams", "ResourceTemplate", "ResourceTemplateReference", "ResourceUpdatedNotification",
    "ResourceUpdatedNotificationParams", "Result", "Role", "Root", "RootsListChangedNotification",
    "SamplingMessage", "SamplingMessageContentBlock", "ServerCapabilities", "ServerCapabilitiesPrompts",
    "ServerCapabilitiesResources", "ServerCapabilitiesTasks", "ServerCapabilitiesTasksRequests",
    "ServerCapabilitiesTasksRequestsTools", "ServerCapabilitiesTools", "ServerNotification", "ServerRequest",
    "ServerResult", "SetLevelRequest", "SetLevelRequestParams", "SingleSelectEnumSchema", "StringSchema",
    "SubscribeRequest", "SubscribeRequestParams", "Task", "TaskAugmentedRequestParams", "TaskMetadata",
    "TaskStatus", "TaskStatusNotification", "TaskStatusNotificationParams", "TextContent",
    "TextResourceContents", "TitledMultiSelectEnumSchema", "TitledMultiSelectEnumSchemaItems",
    "TitledMultiSelectEnumSchemaItemsAnyOf", "TitledSingleSelectEnumSchema",
    "TitledSingleSelectEnumSchemaOneOf", "Tool", "ToolAnnotations", "ToolChoice", "ToolExecution",
    "ToolListChangedNotification", "ToolResultContent", "ToolUseContent", "URLElicitationRequiredError",
    "URLElicitationRequiredErrorError", "UnsubscribeRequest", "UnsubscribeRequestParams",
    "UntitledMultiSelectEnumSchema", "UntitledMultiSelectEnumSchemaItems", "UntitledSingleSelectEnumSchema",
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


class CallToolRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/call"):
    """Used by the client to invoke a tool provided by the server."""

    method: ClassVar[Literal["tools/call"]] = "tools/call"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: CallToolRequestParams


class CallToolRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `tools/call` request."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] | None | UnsetType = UNSET
    """Arguments to use for the tool call."""
    task: TaskMetadata | UnsetType = UNSET
    """If specified, the caller is requesting task-augmented execution for this request."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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


class CancelTaskRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tasks/cancel"):
    """A request to cancel a task."""

    method: ClassVar[Literal["tasks/cancel"]] = "tasks/cancel"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: CancelTaskRequestParams


class CancelTaskRequestParams(Message, kw_only=True, gc=False, rename={"task_id": "taskId", "meta": "_meta"}):
    """``CancelTaskRequestParams`` of the schema."""

    task_id: str
    """The task identifier to cancel."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class CancelTaskResult(
    Message, kw_only=True, gc=False,
    rename={
        "created_at": "createdAt",
        "last_updated_at": "lastUpdatedAt",
        "task_id": "taskId",
        "poll_interval": "pollInterval",
        "status_message": "statusMessage",
        "meta": "_meta",
    },
):
    """The response to a tasks/cancel request."""

    created_at: str
    """ISO 8601 timestamp when the task was created."""
    last_updated_at: str
    """ISO 8601 timestamp when the task was last updated."""
    status: TaskStatus
    """Current task state."""
    task_id: str
    """The task identifier."""
    ttl: int | None
    """Actual retention duration from creation in milliseconds, null for unlimited."""
    poll_interval: int | UnsetType = UNSET
    """Suggested polling interval in milliseconds."""
    status_message: str | UnsetType = UNSET
    """Optional human-readable message describing the current task state."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class CancelledNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/cancelled",
):
    """This notification can be sent by either side to indicate that it is cancelling a previously- ..."""

    method: ClassVar[Literal["notifications/cancelled"]] = "notifications/cancelled"
    jsonrpc: Literal["2.0"] = "2.0"
    params: CancelledNotificationParams


class CancelledNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"request_id": "requestId", "meta": "_meta"},
):
    """Parameters for a `notifications/cancelled` notification."""

    reason: str | UnsetType = UNSET
    """An optional string describing the reason for the cancellation."""
    request_id: RequestId | UnsetType = UNSET
    """The ID of the request to cancel."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ClientCapabilities(Message, kw_only=True, gc=False):
    """Capabilities a client may support."""

    elicitation: ClientCapabilitiesElicitation | UnsetType = UNSET
    """Present if the client supports elicitation from the server."""
    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Experimental, non-standard capabilities that the client supports."""
    roots: ClientCapabilitiesRoots | UnsetType = UNSET
    """Present if the client supports listing roots."""
    sampling: ClientCapabilitiesSampling | UnsetType = UNSET
    """Present if the client supports sampling from an LLM."""
    tasks: ClientCapabilitiesTasks | UnsetType = UNSET
    """Present if the client supports task-augmented requests."""


class ClientCapabilitiesElicitation(Message, kw_only=True, gc=False):
    """Present if the client supports elicitation from the server."""

    form: dict[str, Any] | UnsetType = UNSET
    url: dict[str, Any] | UnsetType = UNSET


class ClientCapabilitiesRoots(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the client supports listing roots."""

    list_changed: bool | UnsetType = UNSET
    """Whether the client supports notifications for changes to the roots list."""


class ClientCapabilitiesSampling(Message, kw_only=True, gc=False):
    """Present if the client supports sampling from an LLM."""

    context: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports context inclusion via includeContext parameter."""
    tools: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports tool use via tools and toolChoice parameters."""


class ClientCapabilitiesTasks(Message, kw_only=True, gc=False):
    """Present if the client supports task-augmented requests."""

    cancel: dict[str, Any] | UnsetType = UNSET
    """Whether this client supports tasks/cancel."""
    list: dict[str, Any] | UnsetType = UNSET
    """Whether this client supports tasks/list."""
    requests: ClientCapabilitiesTasksRequests | UnsetType = UNSET
    """Specifies which request types can be augmented with tasks."""


class ClientCapabilitiesTasksRequests(Message, kw_only=True, gc=False):
    """Specifies which request types can be augmented with tasks."""

    elicitation: ClientCapabilitiesTasksRequestsElicitation | UnsetType = UNSET
    """Task support for elicitation-related requests."""
    sampling: ClientCapabilitiesTasksRequestsSampling | UnsetType = UNSET
    """Task support for sampling-related requests."""


class ClientCapabilitiesTasksRequestsElicitation(Message, kw_only=True, gc=False):
    """Task support for elicitation-related requests."""

    create: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports task-augmented elicitation/create requests."""


class ClientCapabilitiesTasksRequestsSampling(
    Message, kw_only=True, gc=False,
    rename={"create_message": "createMessage"},
):
    """Task support for sampling-related requests."""

    create_message: dict[str, Any] | UnsetType = UNSET
    """Whether the client supports task-augmented sampling/createMessage requests."""


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
    context: CompleteRequestParamsContext | UnsetType = UNSET
    """Additional, optional context for completions."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: CreateMessageRequestParams


class CreateMessageRequestParams(
    Message, kw_only=True, gc=False,
    rename={
        "max_tokens": "maxTokens",
        "include_context": "includeContext",
        "model_preferences": "modelPreferences",
        "stop_sequences": "stopSequences",
        "system_prompt": "systemPrompt",
        "tool_choice": "toolChoice",
        "meta": "_meta",
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
    task: TaskMetadata | UnsetType = UNSET
    """If specified, the caller is requesting task-augmented execution for this request."""
    temperature: int | float | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    """Controls how the model uses tools."""
    tools: list[Tool] | UnsetType = UNSET
    """Tools that the model may use during generation."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class CreateMessageResult(
    Message, kw_only=True, gc=False,
    rename={"stop_reason": "stopReason", "meta": "_meta"},
):
    """The client's response to a sampling/createMessage request from the server."""

    content: TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | list[SamplingMessageContentBlock]
    model: str
    """The name of the model that generated the message."""
    role: Role
    stop_reason: str | UnsetType = UNSET
    """The reason why sampling stopped, if known."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class CreateTaskResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """A response to a task-augmented request."""

    task: Task
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ElicitRequest(Message, kw_only=True, gc=False, tag_field="method", tag="elicitation/create"):
    """A request from the server to elicit additional information from the user via the client."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: ElicitRequestParams


class ElicitRequestParams(
    Message, kw_only=True, gc=False,
    rename={"elicitation_id": "elicitationId", "requested_schema": "requestedSchema", "meta": "_meta"},
):
    """The parameters for a request to elicit additional information from the user via the client."""

    message: str
    """The message to present to the user explaining why the interaction is needed."""
    elicitation_id: str | UnsetType = UNSET
    """The ID of the elicitation, which must be unique within the context of the server."""
    mode: Literal["form", "url"] | UnsetType = UNSET
    """The elicitation mode."""
    task: TaskMetadata | UnsetType = UNSET
    """If specified, the caller is requesting task-augmented execution for this request."""
    url: str | UnsetType = UNSET
    """The URL that the user should navigate to."""
    requested_schema: ElicitRequestFormParamsRequestedSchema | UnsetType = UNSET
    """A restricted subset of JSON Schema."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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


class ElicitRequestURLParams(
    ElicitRequestParams, kw_only=True, gc=False,
    rename={"elicitation_id": "elicitationId"},
):
    """The parameters for a request to elicit information from the user via a URL in the client."""

    elicitation_id: str
    """The ID of the elicitation, which must be unique within the context of the server."""
    mode: Literal["url"] = "url"
    """The elicitation mode."""
    url: str
    """The URL that the user should navigate to."""


class ElicitResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The client's response to an elicitation request."""

    action: Literal["accept", "cancel", "decline"]
    """The user action in response to the elicitation. - 'accept'."""
    content: dict[str, list[str] | str | int | bool | float] | UnsetType = UNSET
    """The submitted form data, only present when action is 'accept' and mode was 'form'."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ElicitationCompleteNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/elicitation/complete",
):
    """An optional notification from the server to the client, informing it of a completion of a out- ..."""

    method: ClassVar[Literal["notifications/elicitation/complete"]] = "notifications/elicitation/complete"
    jsonrpc: Literal["2.0"] = "2.0"
    params: ElicitationCompleteNotificationParams


class ElicitationCompleteNotificationParams(
    Message, kw_only=True, gc=False,
    rename={"elicitation_id": "elicitationId", "meta": "_meta"},
):
    """``ElicitationCompleteNotificationParams`` of the schema."""

    elicitation_id: str
    """The ID of the elicitation that completed."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


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


class GetPromptRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `prompts/get` request."""

    name: str
    """The name of the prompt or prompt template."""
    arguments: dict[str, str] | None | UnsetType = UNSET
    """Arguments to use for templating the prompt."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class GetPromptResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The server's response to a prompts/get request from the client."""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET
    """An optional description for the prompt."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class GetTaskPayloadRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tasks/result"):
    """A request to retrieve the result of a completed task."""

    method: ClassVar[Literal["tasks/result"]] = "tasks/result"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: GetTaskPayloadRequestParams


class GetTaskPayloadRequestParams(
    Message, kw_only=True, gc=False,
    rename={"task_id": "taskId", "meta": "_meta"},
):
    """``GetTaskPayloadRequestParams`` of the schema."""

    task_id: str
    """The task identifier to retrieve results for."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class GetTaskRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tasks/get"):
    """A request to retrieve the state of a task."""

    method: ClassVar[Literal["tasks/get"]] = "tasks/get"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: GetTaskRequestParams


class GetTaskRequestParams(Message, kw_only=True, gc=False, rename={"task_id": "taskId", "meta": "_meta"}):
    """``GetTaskRequestParams`` of the schema."""

    task_id: str
    """The task identifier to query."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Metadata of the message, such as the progress token."""


class GetTaskResult(
    Message, kw_only=True, gc=False,
    rename={
        "created_at": "createdAt",
        "last_updated_at": "lastUpdatedAt",
        "task_id": "taskId",
        "poll_interval": "pollInterval",
        "status_message": "statusMessage",
        "meta": "_meta",
    },
):
    """The response to a tasks/get request."""

    created_at: str
    """ISO 8601 timestamp when the task was created."""
    last_updated_at: str
    """ISO 8601 timestamp when the task was last updated."""
    status: TaskStatus
    """Current task state."""
    task_id: str
    """The task identifier."""
    ttl: int | None
    """Actual retention duration from creation in milliseconds, null for unlimited."""
    poll_interval: int | UnsetType = UNSET
    """Suggested polling interval in milliseconds."""
    status_message: str | UnsetType = UNSET
    """Optional human-readable message describing the current task state."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    """See General fields."""


class Implementation(Message, kw_only=True, gc=False, rename={"website_url": "websiteUrl"}):
    """Describes the MCP implementation."""

    name: str
    """Intended for programmatic or logical use, but used as a display name in past specs or fallback ..."""
    version: str
    description: str | UnsetType = UNSET
    """An optional human-readable description of what this implementation does."""
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
    title: str | UnsetType = UNSET
    """Intended for UI and end-user contexts — optimized to be human-readable and easily understood, ..."""
    website_url: str | UnsetType = UNSET
    """An optional URL of the website for this implementation."""


class InitializeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="initialize"):
    """This request is sent from the client to the server when it first connects, asking it to begin ..."""

    method: ClassVar[Literal["initialize"]] = "initialize"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: InitializeRequestParams


class InitializeRequestParams(
    Message, kw_only=True, gc=False,
    rename={"client_info": "clientInfo", "protocol_version": "protocolVersion", "meta": "_meta"},
):
    """Parameters for an `initialize` request."""

    capabilities: dict[str, Any]
    client_info: Implementation
    protocol_version: str
    """The latest version of the Model Context Protocol that the client supports."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


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
    params: PaginatedRequestParams | UnsetType = UNSET


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
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams | UnsetType = UNSET


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
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams | UnsetType = UNSET


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
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: RequestParams | UnsetType = UNSET


class ListRootsResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The client's response to a roots/list request from the server."""

    roots: list[Root]
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListTasksRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tasks/list"):
    """A request to retrieve a list of tasks."""

    method: ClassVar[Literal["tasks/list"]] = "tasks/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams | UnsetType = UNSET


class ListTasksResult(Message, kw_only=True, gc=False, rename={"next_cursor": "nextCursor", "meta": "_meta"}):
    """The response to a tasks/list request."""

    tasks: list[Task]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ListToolsRequest(Message, kw_only=True, gc=False, tag_field="method", tag="tools/list"):
    """Sent from the client to request a list of tools the server has."""

    method: ClassVar[Literal["tools/list"]] = "tools/list"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: PaginatedRequestParams | UnsetType = UNSET


class ListToolsResult(Message, kw_only=True, gc=False, rename={"next_cursor": "nextCursor", "meta": "_meta"}):
    """The server's response to a tools/list request from the client."""

    tools: list[Tool]
    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    """See General fields."""


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


class NotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """``NotificationParams`` of the schema."""

    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class NumberSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``NumberSchema`` of the schema."""

    type: Literal["integer", "number"]
    default: int | float | UnsetType = UNSET


class PaginatedRequest(Message, kw_only=True, gc=False):
    """``PaginatedRequest`` of the schema."""

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: PaginatedRequestParams | UnsetType = UNSET


class PaginatedRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common parameters for paginated requests."""

    cursor: str | None | UnsetType = UNSET
    """An opaque token representing the current pagination position."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class PaginatedResult(Message, kw_only=True, gc=False, rename={"next_cursor": "nextCursor", "meta": "_meta"}):
    """``PaginatedResult`` of the schema."""

    next_cursor: str | None | UnsetType = UNSET
    """An opaque token representing the pagination position after the last returned result."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class PingRequest(Message, kw_only=True, gc=False, tag_field="method", tag="ping"):
    """A ping, issued by either the server or the client, to check that the other party is still alive."""

    method: ClassVar[Literal["ping"]] = "ping"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: RequestParams | UnsetType = UNSET


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
    """Parameters for a `notifications/progress` notification."""

    progress: int | float
    """The progress thus far."""
    progress_token: ProgressToken
    """The progress token which was given in the initial request, used to associate this notification ..."""
    message: str | UnsetType = UNSET
    """An optional message describing the current progress."""
    total: int | float | UnsetType = UNSET
    """Total number of items to process (or total progress required), if known."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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


class ReadResourceRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `resources/read` request."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class ReadResourceResult(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """The server's response to a resources/read request from the client."""

    contents: list[ResourceContents]
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class RelatedTaskMetadata(Message, kw_only=True, gc=False, rename={"task_id": "taskId"}):
    """Metadata for associating messages with a task."""

    task_id: str
    """The task identifier this message is associated with."""


class Request(Message, kw_only=True, gc=False):
    """``Request`` of the schema."""

    method: str
    params: dict[str, Any] | UnsetType = UNSET


class RequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for any request."""

    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
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
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


class ResourceRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common parameters when working with resources."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    jsonrpc: Literal["2.0"] = "2.0"
    params: ResourceUpdatedNotificationParams


class ResourceUpdatedNotificationParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `notifications/resources/updated` notification."""

    uri: str
    """The URI of the resource that has been updated."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


class SamplingMessage(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Describes a message issued to or received from an LLM API."""

    content: TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | list[SamplingMessageContentBlock]
    role: Role
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    tasks: ServerCapabilitiesTasks | UnsetType = UNSET
    """Present if the server supports task-augmented requests."""
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


class ServerCapabilitiesTasks(Message, kw_only=True, gc=False):
    """Present if the server supports task-augmented requests."""

    cancel: dict[str, Any] | UnsetType = UNSET
    """Whether this server supports tasks/cancel."""
    list: dict[str, Any] | UnsetType = UNSET
    """Whether this server supports tasks/list."""
    requests: ServerCapabilitiesTasksRequests | UnsetType = UNSET
    """Specifies which request types can be augmented with tasks."""


class ServerCapabilitiesTasksRequests(Message, kw_only=True, gc=False):
    """Specifies which request types can be augmented with tasks."""

    tools: ServerCapabilitiesTasksRequestsTools | UnsetType = UNSET
    """Task support for tool-related requests."""


class ServerCapabilitiesTasksRequestsTools(Message, kw_only=True, gc=False):
    """Task support for tool-related requests."""

    call: dict[str, Any] | UnsetType = UNSET
    """Whether the server supports task-augmented tools/call requests."""


class ServerCapabilitiesTools(Message, kw_only=True, gc=False, rename={"list_changed": "listChanged"}):
    """Present if the server offers any tools to call."""

    list_changed: bool | UnsetType = UNSET
    """Whether this server supports notifications for changes to the tool list."""


class SetLevelRequest(Message, kw_only=True, gc=False, tag_field="method", tag="logging/setLevel"):
    """A request from the client to the server, to enable or adjust logging."""

    method: ClassVar[Literal["logging/setLevel"]] = "logging/setLevel"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: SetLevelRequestParams


class SetLevelRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `logging/setLevel` request."""

    level: LoggingLevel
    """The level of logging that the client wants to receive from the server."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class StringSchema(PrimitiveSchemaDefinition, kw_only=True, gc=False):
    """``StringSchema`` of the schema."""

    type: Literal["string"] = "string"
    default: str | UnsetType = UNSET


class SubscribeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/subscribe"):
    """Sent from the client to request resources/updated notifications from the server whenever a ..."""

    method: ClassVar[Literal["resources/subscribe"]] = "resources/subscribe"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: SubscribeRequestParams


class SubscribeRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `resources/subscribe` request."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class Task(
    Message, kw_only=True, gc=False,
    rename={
        "created_at": "createdAt",
        "last_updated_at": "lastUpdatedAt",
        "task_id": "taskId",
        "poll_interval": "pollInterval",
        "status_message": "statusMessage",
    },
):
    """Data associated with a task."""

    created_at: str
    """ISO 8601 timestamp when the task was created."""
    last_updated_at: str
    """ISO 8601 timestamp when the task was last updated."""
    status: TaskStatus
    """Current task state."""
    task_id: str
    """The task identifier."""
    ttl: int | None
    """Actual retention duration from creation in milliseconds, null for unlimited."""
    poll_interval: int | UnsetType = UNSET
    """Suggested polling interval in milliseconds."""
    status_message: str | UnsetType = UNSET
    """Optional human-readable message describing the current task state."""


class TaskAugmentedRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Common params for any task-augmented request."""

    task: TaskMetadata | UnsetType = UNSET
    """If specified, the caller is requesting task-augmented execution for this request."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


class TaskMetadata(Message, kw_only=True, gc=False):
    """Metadata for augmenting a request with task execution."""

    ttl: int | UnsetType = UNSET
    """Requested duration in milliseconds to retain task from creation."""


class TaskStatusNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/tasks/status",
):
    """An optional notification from the receiver to the requestor, informing them that a task's status ..."""

    method: ClassVar[Literal["notifications/tasks/status"]] = "notifications/tasks/status"
    jsonrpc: Literal["2.0"] = "2.0"
    params: TaskStatusNotificationParams


class TaskStatusNotificationParams(
    Message, kw_only=True, gc=False,
    rename={
        "created_at": "createdAt",
        "last_updated_at": "lastUpdatedAt",
        "task_id": "taskId",
        "poll_interval": "pollInterval",
        "status_message": "statusMessage",
        "meta": "_meta",
    },
):
    """Parameters for a `notifications/tasks/status` notification."""

    created_at: str
    """ISO 8601 timestamp when the task was created."""
    last_updated_at: str
    """ISO 8601 timestamp when the task was last updated."""
    status: TaskStatus
    """Current task state."""
    task_id: str
    """The task identifier."""
    ttl: int | None
    """Actual retention duration from creation in milliseconds, null for unlimited."""
    poll_interval: int | UnsetType = UNSET
    """Suggested polling interval in milliseconds."""
    status_message: str | UnsetType = UNSET
    """Optional human-readable message describing the current task state."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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
    execution: ToolExecution | UnsetType = UNSET
    """Execution-related properties for this tool."""
    icons: list[Icon] | UnsetType = UNSET
    """Optional set of sized icons that the client can display in a user interface."""
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


class ToolChoice(Message, kw_only=True, gc=False):
    """Controls tool selection behavior for sampling requests."""

    mode: Literal["auto", "none", "required"] | UnsetType = UNSET
    """Controls the tool use ability of the model: - 'auto'."""


class ToolExecution(Message, kw_only=True, gc=False, rename={"task_support": "taskSupport"}):
    """Execution-related properties for a tool."""

    task_support: Literal["forbidden", "optional", "required"] | UnsetType = UNSET
    """Indicates whether this tool supports task-augmented execution."""


class ToolListChangedNotification(
    Message, kw_only=True, gc=False, tag_field="method",
    tag="notifications/tools/list_changed",
):
    """An optional notification from the server to the client, informing it that the list of tools it ..."""

    method: ClassVar[Literal["notifications/tools/list_changed"]] = "notifications/tools/list_changed"
    jsonrpc: Literal["2.0"] = "2.0"
    params: NotificationParams | UnsetType = UNSET


class ToolResultContent(
    Message, kw_only=True, gc=False, tag_field="type", tag="tool_result",
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
    structured_content: dict[str, Any] | UnsetType = UNSET
    """An optional structured result object."""
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


class URLElicitationRequiredError(Message, kw_only=True, gc=False):
    """An error response that indicates that the server requires the client to provide additional ..."""

    error: URLElicitationRequiredErrorError
    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | UnsetType = UNSET


class URLElicitationRequiredErrorError(Message, kw_only=True, gc=False):
    """``URLElicitationRequiredErrorError`` of the schema."""

    code: Literal[-32042] = -32042
    data: dict[str, Any]
    message: str
    """A short description of the error."""


class UnsubscribeRequest(Message, kw_only=True, gc=False, tag_field="method", tag="resources/unsubscribe"):
    """Sent from the client to request cancellation of resources/updated notifications from the server."""

    method: ClassVar[Literal["resources/unsubscribe"]] = "resources/unsubscribe"
    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    params: UnsubscribeRequestParams


class UnsubscribeRequestParams(Message, kw_only=True, gc=False, rename={"meta": "_meta"}):
    """Parameters for a `resources/unsubscribe` request."""

    uri: str
    """The URI of the resource."""
    meta: dict[str, Any] | UnsetType = UNSET
    """See General fields."""


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


ClientNotification: TypeAlias = (
    CancelledNotification | InitializedNotification | ProgressNotification | TaskStatusNotification |
    RootsListChangedNotification
)
ClientRequest: TypeAlias = (
    InitializeRequest | PingRequest | ListResourcesRequest | ListResourceTemplatesRequest |
    ReadResourceRequest | SubscribeRequest | UnsubscribeRequest | ListPromptsRequest | GetPromptRequest |
    ListToolsRequest | CallToolRequest | GetTaskRequest | GetTaskPayloadRequest | CancelTaskRequest |
    ListTasksRequest | SetLevelRequest | CompleteRequest
)
Result: TypeAlias = dict[str, Any]
GetTaskPayloadResult: TypeAlias = dict[str, Any]
"""The response to a tasks/result request."""
if TYPE_CHECKING:
    ClientResult: TypeAlias = (
        Result | GetTaskResult | GetTaskPayloadResult | CancelTaskResult | ListTasksResult |
        CreateMessageResult | ListRootsResult | ElicitResult | dict[str, Any]
    )
else:
    ClientResult = dict[str, Any]
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Cursor: TypeAlias = str
"""An opaque token used to represent a cursor for pagination."""
EmptyResult: TypeAlias = Result
EnumSchema: TypeAlias = PrimitiveSchemaDefinition
LoggingLevel: TypeAlias = (
    Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]
)
"""The severity of a log message."""
MultiSelectEnumSchema: TypeAlias = PrimitiveSchemaDefinition
ProgressToken: TypeAlias = str | int
"""A progress token, used to associate progress notifications with the original request."""
RequestId: TypeAlias = str | int
"""A uniquely identifying ID for a request in JSON-RPC."""
Role: TypeAlias = Literal["assistant", "user"]
"""The sender or recipient of messages and data in a conversation."""
SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
)
ServerNotification: TypeAlias = (
    CancelledNotification | ProgressNotification | ResourceListChangedNotification |
    ResourceUpdatedNotification | PromptListChangedNotification | ToolListChangedNotification |
    TaskStatusNotification | LoggingMessageNotification | ElicitationCompleteNotification
)
ServerRequest: TypeAlias = (
    PingRequest | GetTaskRequest | GetTaskPayloadRequest | CancelTaskRequest | ListTasksRequest |
    CreateMessageRequest | ListRootsRequest | ElicitRequest
)
if TYPE_CHECKING:
    ServerResult: TypeAlias = (
        Result | InitializeResult | ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult |
        ListPromptsResult | GetPromptResult | ListToolsResult | CallToolResult | GetTaskResult |
        GetTaskPayloadResult | CancelTaskResult | ListTasksResult | CompleteResult | dict[str, Any]
    )
else:
    ServerResult = dict[str, Any]
SingleSelectEnumSchema: TypeAlias = PrimitiveSchemaDefinition
TaskStatus: TypeAlias = Literal["cancelled", "completed", "failed", "input_required", "working"]
"""The status of a task."""
