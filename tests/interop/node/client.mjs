// The official TypeScript SDK's Client against a server; prints what it saw as one JSON object.
//
//     node client.mjs TARGET [PAGED-TARGET]     where a target is a URL or a JSON list (a command)
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LoggingMessageNotificationSchema, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function transport(target) {
  if (target.startsWith("http")) return new StreamableHTTPClientTransport(new URL(target));
  const [command, ...args] = JSON.parse(target);
  return new StdioClientTransport({ command, args, stderr: "inherit" });
}

const plain = (result) => ({
  text: result.content.map((block) => block.text ?? null),
  structured: result.structuredContent ?? null,
  is_error: result.isError ?? false,
});

async function attempt(promise) {
  try {
    return plain(await promise);
  } catch (error) {
    return { code: error.code ?? null, message: error.message };
  }
}

const seen = { logs: [], changed: 0, errors: [] };
const client = new Client({ name: "ts-client", version: "1.0" }, { capabilities: {} });
client.onerror = (error) => seen.errors.push(String(error));
client.setNotificationHandler(LoggingMessageNotificationSchema, (note) => {
  seen.logs.push([note.params.level, note.params.data, note.params.logger]);
});
client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
  seen.changed += 1;
});
const channel = transport(process.argv[2]);
await client.connect(channel);
seen.session = channel.sessionId ?? null;
seen.server = client.getServerVersion();
seen.capabilities = client.getServerCapabilities();
seen.instructions = client.getInstructions();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (name, args, options) => attempt(client.callTool({ name, arguments: args }, undefined, options));
seen.add = await call("add", { a: 1, b: 2 });
seen.echo = await call("echo", { text: "é€😀𝄞\n\"\\\u2028" });
seen.point = await call("point", { x: 1, y: 2.5 });
seen.fail = await call("fail", { message: "as told" });
seen.unknown = await call("no_such_tool", {});
seen.progress = [];
// This SDK forgets the callback of a request with its answer, before it looks at notes of the same read: the pause
// keeps them apart.
seen.count = await call("count", { to: 20, pause: 0.02 }, { onprogress: (p) => seen.progress.push([p.progress, p.total, p.message]) });
await call("log", { level: "warning", text: "careful" });

const giveUp = new AbortController();
const slow = call("slow", { seconds: 20, tag: `${process.pid} by signal` }, { signal: giveUp.signal });
setTimeout(() => giveUp.abort("enough"), 300);
seen.aborted = (await slow).message;
seen.timeout = (await call("slow", { seconds: 20, tag: `${process.pid} by timeout` }, { timeout: 300 })).code;
for (let i = 0; i < 50; i++) {
  const own = `${process.pid} `;
  const lines = (await call("read_journal", {})).text[0].split("|");
  seen.journal = lines.filter((line) => line.startsWith(own)).map((line) => line.slice(own.length));
  if (seen.journal.length >= 2) break;
  await pause(100);
}
const numbers = Array.from({ length: 200 }, (_, number) => String(number));
const answers = await Promise.all(numbers.map((text) => call("echo", { text })));
seen.together = answers.every((answer, number) => answer.text[0] === String(number));
await client.ping();
await client.setLoggingLevel("error");
await pause(200);
await call("grow", { name: "grown_ts" });
for (let i = 0; i < 50 && seen.changed === 0; i++) await pause(100);
seen.grown = (await client.listTools()).tools.map((tool) => tool.name).filter((name) => !seen.tools.includes(name));
if (channel.terminateSession) await channel.terminateSession();
await client.close();

if (process.argv[3]) {
  const other = new Client({ name: "ts-client", version: "1.0" });
  await other.connect(transport(process.argv[3]));
  seen.pages = [];
  let cursor;
  do {
    const page = await other.listTools({ cursor });
    seen.pages.push(page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  await other.close();
}
console.log(JSON.stringify(seen));
process.exit(0);
