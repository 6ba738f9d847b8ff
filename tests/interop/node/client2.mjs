// The Client of version 2 of the official TypeScript SDK against a server; prints what it saw as one JSON object:
// `node client2.mjs MODE TARGET`, MODE legacy or auto, TARGET a URL or a JSON list (a command).
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, target] = process.argv.slice(2);
const seen = { logs: [], progress: [], changed: [], updated: [] };
const note = (message) => `${message}`;

function transport() {
  if (target.startsWith("http")) return new StreamableHTTPClientTransport(new URL(target));
  const [command, ...args] = JSON.parse(target);
  return new StdioClientTransport({ command, args, stderr: "ignore" });
}

async function attempt(call) {
  try {
    const result = await call;
    return {
      text: (result.content ?? []).map((block) => block.text ?? null),
      structured: result.structuredContent ?? null,
      is_error: Boolean(result.isError),
    };
  } catch (error) {
    return { code: error.code ?? null, message: note(error.message) };
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(condition) {
  for (let n = 0; n < 100 && !condition(); n++) await pause(50);
}

const client = new Client(
  { name: "ts2-client", version: "1.0" },
  {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } },
    versionNegotiation: { mode },
    listChanged: { tools: { onChanged: () => seen.changed.push("tools"), autoRefresh: false } },
  },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  seen.question = params.message;
  return { action: "accept", content: { name: "Ada" } };
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => ({
  role: "assistant",
  model: "none",
  content: { type: "text", text: `about ${params.messages[0].content.text ?? params.messages[0].content[0].text}` },
}));
client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///work", name: "work" }] }));
client.setNotificationHandler("notifications/message", ({ params }) => void seen.logs.push([params.level, params.data]));
client.setNotificationHandler("notifications/resources/updated", ({ params }) => void seen.updated.push(params.uri));
await client.connect(transport());

const call = (name, args, options) => client.callTool({ name, arguments: args ?? {} }, options);
seen.protocol = client.getNegotiatedProtocolVersion();
seen.server = client.getServerVersion()?.name ?? null;
seen.instructions = client.getInstructions() ?? null;
seen.capabilities = client.getServerCapabilities();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.add = await attempt(call("add", { a: 1, b: 2 }));
seen.echo = await attempt(call("echo", { text: 'é€😀𝄞\n"\\\u2028' }));
seen.point = await attempt(call("point", { x: 1, y: 2.5 }));
seen.fail = await attempt(call("fail", { message: "as told" }));
seen.unknown = await attempt(call("no_such_tool"));
seen.count = await attempt(call("count", { to: 20 }, { onprogress: (each) => seen.progress.push(each.progress) }));
const meta = { "io.modelcontextprotocol/logLevel": "debug" };
if (mode === "legacy") await client.setLoggingLevel("debug");
await client.callTool({ name: "log", arguments: { level: "warning", text: "careful" }, _meta: meta });
await until(() => seen.logs.length);
const tag = `${process.pid}`;
seen.timeout = (await attempt(call("slow", { seconds: 20, tag }, { timeout: 300 }))).message;
for (let n = 0; n < 50 && !seen.cancelled; n++) {
  seen.cancelled = (await attempt(call("read_journal"))).text[0].includes(`${tag} cancelled`);
  await pause(100);
}
const many = Array.from({ length: 200 }, (_, n) => `${n}`);
const answers = await Promise.all(many.map((each) => attempt(call("echo", { text: each }))));
seen.together = answers.every((answer, n) => answer.text[0] === many[n]);
if (seen.tools.includes("ask_name")) {
  seen.ask_name = await attempt(call("ask_name"));
  seen.think = await attempt(call("think", { prompt: "cats" }));
  seen.where = await attempt(call("where"));
  seen.resources = (await client.listResources()).resources.map((each) => each.uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate);
  seen.read = (await client.readResource({ uri: "note://static" })).contents[0].text;
  seen.blob = (await client.readResource({ uri: "note://blob" })).contents[0].blob;
  seen.named = (await client.readResource({ uri: "note://named/x%20y" })).contents[0].text;
  seen.missing = await attempt(client.readResource({ uri: "note://nowhere" }));
  seen.prompts = (await client.listPrompts()).prompts.map((each) => [each.name, each.arguments?.map((a) => a.name)]);
  seen.prompt = (await client.getPrompt({ name: "greet", arguments: { name: "Ada" } })).messages[0].content.text;
  const ref = { type: "ref/prompt", name: "greet" };
  seen.completion = (await client.complete({ ref, argument: { name: "name", value: "A" } })).completion.values;
  let subscription;
  if (mode === "legacy") await client.subscribeResource({ uri: "note://static" });
  else subscription = await client.listen({ resourceSubscriptions: ["note://static"], toolsListChanged: true });
  seen.honored = subscription?.honoredFilter ?? null;
  await call("touch");
  await until(() => seen.updated.length);
  if (subscription) await subscription.close();
  else await client.unsubscribeResource({ uri: "note://static" });
}
await call("grow", { name: `grown_${process.pid}` });
await until(() => seen.changed.length);
seen.grown = (await client.listTools({}, { cacheMode: "bypass" })).tools.map((tool) => tool.name).includes(`grown_${process.pid}`);
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
