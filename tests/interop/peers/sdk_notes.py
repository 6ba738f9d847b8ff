"""Resources, a prompt and its completion, alike on both generations of the official Python SDK."""


def add_notes(app, completion):
    """Registers them on ``app``; ``completion`` is the SDK's own type of that name."""

    @app.resource("note://static", mime_type="text/plain")
    def static() -> str:
        return "static note"

    @app.resource("note://blob", mime_type="image/png")
    def blob() -> bytes:
        return b"\x89PNG\r\n"

    @app.resource("note://named/{name}")
    def named(name: str) -> str:
        return f"note of {name}"

    @app.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}"

    @app.completion()
    async def complete(ref, argument, context):
        return completion(values=[each for each in ("Ada", "Alan", "Grace") if each.startswith(argument.value)])
