"""Content on a terminal: text as it is, binary contents described or saved in files."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import os
from typing import Any

from headrace.cli.app import Failure, harmless

__all__ = ("binary", "block_text", "check_folder", "show_result")


def show_result(result: dict[str, Any], out: Any, folder: str | None) -> None:
    """Prints the content of a tool's result to ``out``; structured content when there is no text."""
    blocks = result.get("content")
    lines = [block_text(b, number, folder) for number, b in enumerate(blocks or (), 1) if isinstance(b, dict)]
    has_text = any(isinstance(b, dict) and b.get("type") == "text" for b in blocks or ())
    if "structuredContent" in result and not has_text:
        lines.append(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False))
    for line in lines:
        print(harmless(line, out), file=out)


def block_text(block: dict[str, Any], number: int, folder: str | None) -> str:
    """One content block as text; binary ones are saved in ``folder``, or described when that is None."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return binary(str(kind), block.get("data"), block.get("mimeType"), number, folder)
    if kind == "resource":
        resource = block.get("resource") or {}
        if "text" in resource:
            return str(resource["text"])
        return binary(
            f"resource {resource.get('uri')}", resource.get("blob"), resource.get("mimeType"), number, folder
        )
    if kind == "resource_link":
        return f"[link {block.get('uri')}: {block.get('name')}]"
    return json.dumps(block, ensure_ascii=False)


def binary(what: str, data: Any, mime: Any, number: int, folder: str | None) -> str:
    """Base64 text ``data``: described, or saved in ``folder`` under the first word of ``what`` and ``number``."""
    try:
        raw = base64.b64decode(str(data or ""), validate=True)
    except (binascii.Error, ValueError):
        return f"[{what}, {mime}, not valid base64]"
    if folder is None:
        return f"[{what}, {mime}, {len(raw)} bytes; --output DIR saves it]"
    # The name is ours: nothing of the server's text becomes part of a path.
    stem = os.path.join(folder, f"{what.split()[0]}-{number}")
    return _save(raw, stem, mimetypes.guess_extension(str(mime)) or ".bin")


def check_folder(folder: str) -> None:
    """Makes the folder; raises Failure when nothing can be saved there, before the tool does its work."""
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        raise Failure(f"--output {folder}: not a directory") from None
    except OSError as exc:
        raise Failure(f"--output {folder}: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failure(f"--output {folder}: not writable")


def _save(raw: bytes, stem: str, ending: str) -> str:
    """Writes a new file and gives its path: what is there already stays, the new one gets a number more."""
    path = stem + ending
    for again in range(2, _MAX_FILES):
        try:
            with open(path, "xb") as file:
                file.write(raw)
            return path
        except FileExistsError:
            path = f"{stem}-{again}{ending}"
        except OSError as exc:
            raise Failure(f"{path}: {exc.strerror}") from exc
    raise Failure(f"{stem}{ending}: there are too many files of that name")


_MAX_FILES = 10_000
