// A server on the official TypeScript SDK: `node server.mjs stdio` or `node server.mjs http PORT` (with sessions).
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const journal = [];

function make() {
  const server = new McpServer({ name: "ts-peer", version: "9.9" }, { capabilities: { logging: {} } });
  const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
  server.registerTool("add", { inputSchema: { a: z.number(), b: z.number() } }, async ({ a, b }) => text(a + b));
  server.registerTool("echo", { inputSchema: { text: z.string() } }, async (args) => text(args.text));
  server.registerTool(
    "point",
    { inputSchema: { x: z.number(), y: z.number() }, outputSchema: { x: z.number(), y: z.number() } },
    async (args) => ({ ...text("a point"), structuredContent: args }),
  );
  server.registerTool("fail", { inputSchema: { message: z.string() } }, async ({ message }) => {
    throw new Error(message);
  });
  server.registerTool("count", { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (let progress = 1; progress <= to; progress++) {
      if (progressToken === undefined) continue;
      const params = { progressToken, progress, total: to, message: `at ${progress}` };
      await extra.sendNotification({ method: "notifications/progress", params });
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("slow", { inputSchema: { seconds: z.number(), tag: z.string() } }, ({ seconds, tag }, extra) => {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(text(tag)), seconds * 1000);
      extra.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        journal.push(`${tag} cancelled`);
        reject(new Error("cancelled"));
      });
    });
  });
  server.registerTool("read_journal", {}, async () => text(journal.join("|")));
  server.registerTool("log", { inputSchema: { level: z.string(), text: z.string() } }, async (args, extra) => {
    const params = { level: args.level, data: args.text, logger: "peer" };
    await extra.sendNotification({ method: "notifications/message", params });
    return text("logged");
  });
  server.registerTool("grow", { inputSchema: { name: z.string() } }, async ({ name }) => {
    server.registerTool(name, {}, async () => text(name));
    return text(name);
  });
  return server;
}

if (process.argv[2] === "stdio") {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (transport === undefined) {
      if (id !== undefined) {
        response.writeHead(404).end();
        return;
      }
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (made) => sessions.set(made, transport),
        onsessionclosed: (ended) => sessions.delete(ended),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(Number(process.argv[3]), "127.0.0.1");
}
