"""headrace.server.content: images, audio, bytes, blocks."""

import base64
import hashlib
from pathlib import Path

import pytest

from headrace import types
from headrace.errors import UsageError
from headrace.server.content import Audio, Image, ToolResult, block_kind, is_block_type, sniff, to_block

PNG = b"\x89PNG\r\n\x1a\n rest"
WAV = b"RIFF....WAVEfmt "


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF....WEBP", "image/webp"),
        (WAV, "audio/wav"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"ID3\x04", "audio/mpeg"),
        (b"", None),
        (b"RIFF....AVI ", None),
        (b"plain text", None),
    ],
)
def test_sniff(data: bytes, mime_type: str | None) -> None:
    assert sniff(data) == mime_type


def test_mime_types_of_images_and_audio() -> None:
    assert Image(PNG).mime_type == "image/png"
    assert Image(b"?", format="JPG").mime_type == "image/jpeg"
    assert Image(b"?", format=".svg").mime_type == "image/svg+xml"
    assert Image(PNG, "image/x-own", format="gif").mime_type == "image/x-own"
    assert Audio(WAV).mime_type == "audio/wav"
    assert Audio(bytearray(b"?"), format="mp3").mime_type == "audio/mpeg"
    assert repr(Audio(WAV)) == "<Audio audio/wav, 16 bytes>"
    for fault in (lambda: Image(WAV), lambda: Audio(b"?"), lambda: Image("text")):  # type: ignore[arg-type, return-value]
        with pytest.raises(UsageError):
            fault()


def test_content_blocks_of_images_and_audio() -> None:
    note = types.Annotations(priority=1)
    block = Image(memoryview(PNG), annotations=note, meta={"a": 1}).to_content()
    assert block == types.ImageContent(
        data=base64.b64encode(PNG).decode(), mime_type="image/png", annotations=note, meta={"a": 1}
    )
    assert Audio(WAV).to_content() == types.AudioContent(
        data=base64.b64encode(WAV).decode(), mime_type="audio/wav"
    )


def test_from_file(tmp_path: Path) -> None:
    for name, data, mime_type in (
        ("a.png", PNG, "image/png"),
        ("b.webp", b"?", "image/webp"),
        ("c", PNG, "image/png"),
    ):
        (tmp_path / name).write_bytes(data)
        assert Image.from_file(tmp_path / name).mime_type == mime_type
    (tmp_path / "d").write_bytes(b"?")
    with pytest.raises(UsageError, match="mime_type"):
        Image.from_file(tmp_path / "d")


def test_b111_bytes_have_one_mapping() -> None:
    assert block_kind(to_block(PNG)) == "image"
    assert block_kind(to_block(WAV)) == "audio"
    block = to_block(bytearray(b"data"))
    assert isinstance(block, types.EmbeddedResource)
    contents = block.resource
    assert isinstance(contents, types.BlobResourceContents)
    assert base64.b64decode(contents.blob) == b"data" and contents.mime_type == "application/octet-stream"
    digest = contents.uri.removeprefix("ni:///sha-256;")
    assert base64.urlsafe_b64decode(digest + "=") == hashlib.sha256(b"data").digest()


def test_what_counts_as_a_block() -> None:
    old = types.of("2025-03-26").TextContent(text="a")
    assert to_block(old) is old and block_kind(old) == "text"
    assert to_block("a") == types.TextContent(text="a")
    for tp in (Image, Audio, bytes, memoryview, types.ResourceLink, type(old)):
        assert is_block_type(tp)
    for tp in (str, dict, ToolResult, types.Tool, types.ResourceContents, types.ToolUseContent, 5):
        assert not is_block_type(tp)
    with pytest.raises(TypeError):
        to_block(5)
