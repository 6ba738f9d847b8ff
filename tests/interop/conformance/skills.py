"""The extension io.modelcontextprotocol/skills (SEP-2640), as a feature that any program can add to a server."""

import hashlib
from typing import Any

import msgspec

from headrace import RpcError, Server
from headrace.jsonrpc import INVALID_PARAMS, R5
from headrace.mux import Exchange, FunctionHandler, Handler

EXTENSION = "io.modelcontextprotocol/skills"
DIRECTORY = "skill://unit-converter"
FRONT_MATTER = {"name": "unit-converter", "description": "Converts between units of measure"}
FILES = {
    f"{DIRECTORY}/SKILL.md": "---\nname: unit-converter\ndescription: Converts between units of measure\n---\n\nUse the tables.\n",
    f"{DIRECTORY}/references/LENGTH.md": "One inch is 25.4 mm.\n",
}
CACHED = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}


def entry() -> dict[str, Any]:
    resources = []
    for uri, text in FILES.items():
        raw = text.encode()
        resources.append({"uri": uri, "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size": len(raw)})
    return {"uri": f"{DIRECTORY}/SKILL.md", "frontmatter": FRONT_MATTER, "resources": resources}


def uri_of(exchange: Exchange) -> Any:
    return msgspec.json.decode(exchange.params or b"{}").get("uri")


def listed(exchange: Exchange) -> dict[str, Any]:
    return {"skills": [entry()], **CACHED}


def got(exchange: Exchange) -> dict[str, Any]:
    if uri_of(exchange) != entry()["uri"]:
        raise RpcError(INVALID_PARAMS, "there is no such skill", {"uri": uri_of(exchange)})
    return {"skill": entry(), **CACHED}


def read_directory(exchange: Exchange) -> dict[str, Any]:
    """Children of a directory: files, and directories by their media type."""
    directory = f"{uri_of(exchange)}/"
    found = {}
    for uri in FILES:
        if uri.startswith(directory):
            name, inner, _ = uri.removeprefix(directory).partition("/")
            child = {"uri": directory + name, "name": name}
            found[name] = {**child, "mimeType": "inode/directory" if inner else "text/markdown"}
    if not found:
        raise RpcError(INVALID_PARAMS, "this is no directory", {"uri": uri_of(exchange)})
    return {"resources": list(found.values()), **CACHED}


class Skills:
    """The feature: methods and settings of the extension, in the revision that has extensions."""

    def methods(self, revision: str) -> dict[bytes, Handler]:
        if revision != R5:
            return {}
        made = {"skills/list": listed, "skills/get": got, "resources/directory/read": read_directory}
        return {name.encode(): FunctionHandler(each) for name, each in made.items()}

    def capability(self, revision: str) -> dict[str, Any]:
        return {"extensions": {EXTENSION: {"directoryRead": True}}} if revision == R5 else {}


def register(app: Server) -> None:
    """Puts the extension, and the files of its skill, on `app`."""
    app.add_feature(Skills())
    for uri, text in FILES.items():
        main = uri.endswith("SKILL.md")
        name = FRONT_MATTER["name"] if main else uri.rpartition("/")[2]
        description = FRONT_MATTER["description"] if main else "A file of a skill."
        app.add_resource(uri, text, name=name, description=description, mime_type="text/markdown")
