"""A line server that behaves as its first argument says: mini_server.py KIND [...]. Speaks the handshake era, on bytes."""

import json
import os
import signal
import subprocess
import sys
import time

kind = sys.argv[1]
out = sys.stdout.buffer


def write(data):
    out.write(data)
    out.flush()


def answer(message, result):
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")


def text(value):
    return {"content": [{"type": "text", "text": value}], "isError": False}


def initialize(message):
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "mini", "version": "1"}}
    answer(message, result)


if kind in ("stubborn", "deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "deaf" else lambda *_: note("term") or os._exit(7))


def note(word):
    with open(sys.argv[2], "a") as file:
        file.write(f"{word}\n")


if kind == "flood":
    line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"' + b"x" * 1000 + b'"}}\n'
    for count in range(int(sys.argv[3])):
        write(line)
        if count % 100 == 0:
            with open(sys.argv[2], "w") as file:
                file.write(str(count))
    with open(sys.argv[2], "w") as file:
        file.write("done")

if kind == "stubborn" and len(sys.argv) > 3:
    child = subprocess.Popen(["sleep", "60"])
    note(str(child.pid))

if kind == "closes-input":
    os.close(0)
    note("closed")
    time.sleep(60)

if kind == "latin":
    write('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"h\xe9"}}\n'.encode("latin-1"))

if kind == "garbage":
    write(b'not json\n\n{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0","method":"notifications/message",')
    write(b'"params":{"level":"info","data":"h\xff"}}\n')

for raw in sys.stdin.buffer:
    message = json.loads(raw.decode("latin-1" if kind == "latin" else "utf-8"))
    method = message.get("method")
    if method == "initialize":
        initialize(message)
    elif method == "server/discover":
        reply = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
        write(json.dumps(reply).encode() + b"\n")
    elif method == "tools/list":
        answer(message, {"tools": []})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "die":
            sys.stderr.write("it hurts\n")
            sys.stderr.flush()
            os._exit(3)
        if name == "hang":
            continue
        if name == "say":
            answer(message, text(message["params"]["arguments"]["text"]))
        elif name == "about":
            where = {"cwd": os.getcwd(), "env": dict(os.environ), "argv": sys.argv[1:]}
            sys.stderr.write("about\n")
            sys.stderr.flush()
            answer(message, text(json.dumps(where)))
    elif method == "notifications/cancelled" and len(sys.argv) > 2 and kind == "plain":
        note(json.dumps(message["params"]))

if kind in ("stubborn", "deaf"):
    note("eof")
    while True:
        time.sleep(60)
