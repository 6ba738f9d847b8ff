"""The page of a report as Chromium renders it: nothing sticks out, nothing is fetched, every chart has something in it."""

import http.server
import json
import re
import shutil
import struct
import subprocess
import threading
import zlib

import pytest
from bench_samples import sample

from headrace.bench.html import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.timeout(180),
]

# Looks at the page from outside of it, as the page allows no script: in a frame as wide as the device.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">
<body style="margin:0"><iframe id="f" src="page.html" style="border:0;width:WIDTHpx;height:3000px"></iframe><pre id="out"></pre>
<script>
const found = {errors: [], violations: []};
window.onerror = (text) => { found.errors.push(text); };
document.getElementById("f").onload = () => {
  const doc = document.getElementById("f").contentDocument, win = document.getElementById("f").contentWindow;
  doc.addEventListener("securitypolicyviolation", (e) => found.violations.push(e.blockedURI));
  const wide = doc.documentElement.clientWidth;
  const outside = [];
  for (const each of doc.querySelectorAll("body *")) {
    if (each.closest("svg") && each.tagName !== "svg" || each.closest(".scroll") && !each.matches(".scroll")) continue;
    const box = each.getBoundingClientRect();
    if (box.width && (box.left < -0.5 || box.right > wide + 0.5)) outside.push(each.tagName + "." + each.className);
  }
  found.width = wide;
  found.scrolls = doc.documentElement.scrollWidth > wide;
  found.outside = outside;
  found.charts = [...doc.querySelectorAll("svg.chart")].map((svg) => {
    const box = svg.getBoundingClientRect();
    const shapes = [...svg.querySelectorAll("path.line, path.bar, path.area")].map((s) => s.getBBox());
    const texts = [...svg.querySelectorAll("text.tick")].filter((t) => getComputedStyle(t).display !== "none");
    const frame = svg.viewBox.baseVal;
    const cut = texts.map((t) => t.getBBox()).filter(
      (b) => b.x < -0.5 || b.x + b.width > frame.width + 0.5 || b.y < -0.5 || b.y + b.height > frame.height + 0.5).length;
    return {label: svg.getAttribute("aria-label"), width: box.width, height: box.height, shapes: shapes.length,
            drawn: shapes.some((b) => b.width > 1 && b.height >= 0), cut,
            font: parseFloat(win.getComputedStyle(texts[0]).fontSize) * box.width / frame.width};
  });
  found.background = win.getComputedStyle(doc.body).backgroundColor;
  found.fetched = win.performance.getEntriesByType("resource").map((e) => e.name);
  found.heading = doc.querySelector("h1").textContent;
  found.scripts = doc.scripts.length;
  document.getElementById("out").textContent = "FOUND" + JSON.stringify(found) + "END";
};
</script>"""


def chromium(tmp_path, *arguments):
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def served(tmp_path):
    """A folder on a port of its own, and what was asked for there."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, text, *arguments):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join(10)


def pages():
    errors = [("rpc_error", 1234, "<script>document.title='x'</script>" + "x" * 260), ("timeout", 3, "no answer within 30 s")]
    return {
        "usual": page(sample()),
        "compared": page(sample(seed=2, speed=1.2), sample(), ("before.json", "this run")),
        "wrong": page(sample(errors=errors, server=False, limit=True, seconds=400, rate=500,
                             name="npx -y @scope/server --with=a/very/long/option/that/does/not/break" * 3)),
    }  # fmt: skip


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["usual", "compared", "wrong"])
def test_pages_fit_on_a_desktop_and_on_a_phone(tmp_path, served, kind, width):
    address, asked = served
    (tmp_path / "page.html").write_text(pages()[kind])
    (tmp_path / "probe.html").write_text(PROBE.replace("WIDTH", str(width)))
    dom = chromium(tmp_path, "--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom", f"{address}/probe.html")
    text = re.search(r"FOUND(\{.*\})END", dom, re.S)
    assert text is not None, dom[-2000:]
    found = json.loads(text[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["width"] == width
    assert found["errors"] == [] and found["violations"] == [] and found["scripts"] == 0
    assert not found["scrolls"] and found["outside"] == []
    assert found["fetched"] == [] and set(asked) == {"/probe.html", "/page.html"}
    assert len(found["charts"]) == (6 if kind != "wrong" else 4)
    for chart in found["charts"]:
        assert chart["width"] > 200 and chart["height"] > 100, chart
        assert chart["shapes"] >= 1 and chart["drawn"] and chart["cut"] == 0, chart
        assert chart["font"] >= 9.5, chart
        assert chart["label"]


def pixels(path):
    """Width, height and rows of RGB(A) bytes of a PNG without interlacing."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunk)
        elif kind == b"IDAT":
            body += chunk
        at += 12 + size
    assert depth == 8 and colour in (2, 6) and not interlace
    step = 3 if colour == 2 else 4
    raw, rows, before = zlib.decompress(body), [], bytearray(width * step)
    for y in range(height):
        line = raw[y * (width * step + 1) : (y + 1) * (width * step + 1)]
        row = bytearray(line[1:])
        for i in range(len(row)):
            left = row[i - step] if i >= step else 0
            above, corner = before[i], before[i - step] if i >= step else 0
            if line[0] == 1:
                row[i] = (row[i] + left) & 255
            elif line[0] == 2:
                row[i] = (row[i] + above) & 255
            elif line[0] == 3:
                row[i] = (row[i] + (left + above) // 2) & 255
            elif line[0] == 4:
                guess = left + above - corner
                nearest = min((left, above, corner), key=lambda v: abs(guess - v))
                row[i] = (row[i] + nearest) & 255
        rows.append(row)
        before = row
    return step, rows


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_screenshot_has_the_charts_in_their_colours(tmp_path, dark):
    (tmp_path / "page.html").write_text(page(sample()))
    shot = tmp_path / "shot.png"
    theme = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    chromium(tmp_path, *theme, "--window-size=800,1300", f"--screenshot={shot}", (tmp_path / "page.html").as_uri())
    step, rows = pixels(shot)
    line = (0x4C, 0x93, 0xEA) if dark else (0x2A, 0x78, 0xD6)
    ground = sum(rows[5][:3])
    assert ground < 120 if dark else ground > 600
    drawn = sum(
        1 for row in rows for x in range(0, len(row), step)
        if all(abs(row[x + i] - line[i]) < 12 for i in range(3))
    )  # fmt: skip
    assert drawn > 1500
