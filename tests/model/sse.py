"""Server-sent events by the letter of WHATWG HTML 9.2.6: the oracle of csrc/hr_sse. Whole streams only."""

import re

RETRY_MAX = 2**32 - 1
NAME_MAX = 256
ID_MAX = 1024


class TooLarge(Exception):
    pass


Event = tuple[bytes, bytes, bytes]


def interpret(stream: bytes, max_event: int = 1 << 30) -> tuple[list[Event], bytes, int | None]:
    """``([(event, data, id)], last event id, retry)``; ids and names as bytes, ``b""`` for none.

    Raises TooLarge, with what came before it in args[0], where the decoder gives up.
    """
    if stream.startswith(b"\xef\xbb\xbf"):
        stream = stream[3:]
    lines = re.split(rb"\r\n|\n|\r", stream)
    rest = lines.pop()  # without a line end: never interpreted, but its size counts
    events: list[Event] = []
    last = pending = name = b""
    data: list[bytes] = []
    retry = None

    def check(field: bytes, value: bytes) -> None:
        if field == b"data" and len(b"\n".join([*data, value])) > max_event:
            raise TooLarge(events)
        if (field == b"event" and len(value) > NAME_MAX) or (field == b"id" and len(value) > ID_MAX):
            raise TooLarge(events)

    for line in lines:
        if not line:
            last = pending
            if data:
                events.append((name or b"message", b"\n".join(data), last))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        check(field, value)
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            pending = value
        elif field == b"retry" and re.fullmatch(rb"[0-9]+", value):
            retry = min(int(value), RETRY_MAX)
    field, colon, value = rest.partition(b":")
    if colon:
        check(field, value.removeprefix(b" "))
    return events, last, retry
