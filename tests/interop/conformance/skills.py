"""The extension io.modelcontextprotocol/skills (SEP-2640), made with what any program can use."""

import hashlib
from typing import Any

import msgspec

from headrace import RpcError, Server
from headrace.jsonrpc import INVALID_PARAMS, R5
from headrace.server.extensions import Extension
from headrace.server.features import CacheHint

DIRECTORY = "skill://unit-converter"
FRONT_MATTER = {"name": "unit-converter", "description": "Converts between units of measure"}
FILES = {
    f"{DIRECTORY}/SKILL.md": "---\nname: unit-converter\ndescription: Converts between units of measure\n---\n\nUse the tables.\n",
    f"{DIRECTORY}/references/LENGTH.md": "One inch is 25.4 mm.\n",
}
CACHED = CacheHint(60, "public")

skills = Extension("io.modelcontextprotocol/skills", {"directoryRead": True}, revisions=[R5])


class Which(msgspec.Struct):
    uri: str


def entry() -> dict[str, Any]:
    resources = []
    for uri, text in FILES.items():
        raw = text.encode()
        resources.append({"uri": uri, "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size": len(raw)})
    return {"uri": f"{DIRECTORY}/SKILL.md", "frontmatter": FRONT_MATTER, "resources": resources}


@skills.method("skills/list", cache=CACHED)
async def listed() -> dict[str, Any]:
    return {"skills": [entry()]}


@skills.method("skills/get", cache=CACHED)
async def got(which: Which) -> dict[str, Any]:
    if which.uri != entry()["uri"]:
        raise RpcError(INVALID_PARAMS, "there is no such skill", {"uri": which.uri})
    return {"skill": entry()}


@skills.method("resources/directory/read", cache=CACHED)
async def read_directory(which: Which) -> dict[str, Any]:
    """Children of a directory: files, and directories by their media type."""
    directory = f"{which.uri}/"
    found = {}
    for uri in FILES:
        if uri.startswith(directory):
            name, inner, _ = uri.removeprefix(directory).partition("/")
            child = {"uri": directory + name, "name": name}
            found[name] = {**child, "mimeType": "inode/directory" if inner else "text/markdown"}
    if not found:
        raise RpcError(INVALID_PARAMS, "this is no directory", {"uri": which.uri})
    return {"resources": list(found.values())}


def register(app: Server) -> None:
    """Puts the extension, and the files of its skill, on `app`."""
    app.add_extension(skills)
    for uri, text in FILES.items():
        main = uri.endswith("SKILL.md")
        name = FRONT_MATTER["name"] if main else uri.rpartition("/")[2]
        description = FRONT_MATTER["description"] if main else "A file of a skill."
        app.add_resource(uri, text, name=name, description=description, mime_type="text/markdown")
