// A server on version 2 of the official TypeScript SDK: `node server2.mjs stdio` or `node server2.mjs http PORT`.
// Both eras; questions to the client are `input_required` results in the modern one, requests in the handshake era.
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { McpServer, ResourceTemplate, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const journal = [];
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const NAME_FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
let notifier;

function make({ era }) {
  const capabilities = { logging: {}, completions: {}, resources: { subscribe: true, listChanged: true } };
  const server = new McpServer({ name: "ts2-peer", version: "9.9" }, { capabilities, instructions: "A peer." });
  const tool = (name, input, run) => server.registerTool(name, input ? { inputSchema: z.object(input) } : {}, run);
  tool("add", { a: z.number(), b: z.number() }, async ({ a, b }) => text(a + b));
  tool("echo", { text: z.string() }, async (args) => text(args.text));
  server.registerTool(
    "point",
    {
      inputSchema: z.object({ x: z.number(), y: z.number() }),
      outputSchema: z.object({ x: z.number(), y: z.number() }),
    },
    async (args) => ({ ...text("a point"), structuredContent: args }),
  );
  tool("fail", { message: z.string() }, async ({ message }) => {
    throw new Error(message);
  });
  tool("count", { to: z.number() }, async ({ to }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= to; progress++) {
      if (progressToken === undefined) continue;
      const params = { progressToken, progress, total: to, message: `at ${progress}` };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    return text(`counted to ${to}`);
  });
  tool("slow", { seconds: z.number(), tag: z.string() }, ({ seconds, tag }, ctx) => {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(text(tag)), seconds * 1000);
      ctx.mcpReq.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        journal.push(`${tag} cancelled`);
        reject(new Error("cancelled"));
      });
    });
  });
  tool("read_journal", null, async () => text(journal.join("|")));
  tool("log", { level: z.string(), text: z.string() }, async (args, ctx) => {
    await ctx.mcpReq.log(args.level, args.text, "peer");
    return text("logged");
  });
  tool("ask_name", null, async (args, maybe) => {
    const ctx = maybe ?? args;
    const question = { message: "Your name?", requestedSchema: NAME_FORM };
    let answer = ctx.mcpReq.inputResponses?.name;
    if (era === "legacy") answer = await ctx.mcpReq.elicitInput({ mode: "form", ...question });
    else if (!answer) return inputRequired({ inputRequests: { name: inputRequired.elicit(question) }, requestState: "s1" });
    return text(answer.action === "accept" ? `Hello ${answer.content.name}` : answer.action);
  });
  tool("think", { prompt: z.string() }, async ({ prompt }, ctx) => {
    const request = { messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens: 10 };
    let answer = ctx.mcpReq.inputResponses?.thought;
    if (era === "legacy") answer = await ctx.mcpReq.requestSampling(request);
    else if (!answer) return inputRequired({ inputRequests: { thought: inputRequired.createMessage(request) } });
    const content = Array.isArray(answer.content) ? answer.content[0] : answer.content;
    return text(`thought ${content.text}`);
  });
  tool("where", null, async (args, maybe) => {
    const ctx = maybe ?? args;
    let answer = ctx.mcpReq.inputResponses?.roots;
    if (era === "legacy") answer = await server.server.listRoots();
    else if (!answer) return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
    return text(answer.roots.map((root) => root.uri).join(" "));
  });
  tool("touch", null, async () => {
    if (era === "legacy") await server.server.sendResourceUpdated({ uri: "note://static" });
    else notifier?.resourceUpdated("note://static");
    return text("touched");
  });
  tool("grow", { name: z.string() }, async ({ name }) => {
    tool(name, null, async () => text(name));
    notifier?.toolsChanged();
    return text(name);
  });
  const note = (uri, body) => ({ contents: [{ uri: String(uri), mimeType: "text/plain", text: body }] });
  server.registerResource("static", "note://static", { mimeType: "text/plain" }, async (uri) => note(uri, "static note"));
  server.registerResource("blob", "note://blob", { mimeType: "image/png" }, async (uri) => ({
    contents: [{ uri: String(uri), mimeType: "image/png", blob: "iVBORw0K" }],
  }));
  const template = new ResourceTemplate("note://named/{name}", { list: undefined });
  server.registerResource("named", template, {}, async (uri, { name }) => note(uri, `note of ${name}`));
  server.registerPrompt("greet", { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
  }));
  server.server.setRequestHandler("completion/complete", async ({ params }) => ({
    completion: { values: ["Ada", "Alan", "Grace"].filter((each) => each.startsWith(params.argument.value)) },
  }));
  if (era === "legacy") {
    server.server.setRequestHandler("resources/subscribe", async () => ({}));
    server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  }
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(make);
} else {
  const handler = createMcpHandler(make);
  notifier = handler.notify;
  const http = createServer(async (request, response) => {
    const abort = new AbortController();
    response.on("close", () => abort.abort());
    const method = request.method;
    const answer = await handler.fetch(
      new Request(`http://${request.headers.host}${request.url}`, {
        method,
        headers: request.headers,
        body: method === "POST" ? Readable.toWeb(request) : undefined,
        duplex: "half",
        signal: abort.signal,
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on("error", () => {}).pipe(response);
    else response.end();
  });
  http.listen(Number(process.argv[3]), "127.0.0.1");
}
