// The bench tools on the official TypeScript SDK, version 1: `typescript_server.mjs stdio|PORT [fast|default]`.
// fast: JSON answers; default: event streams. Both in sessions. MODULES: the folder with node_modules.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { addTools, text } from "./tools.mjs";

const require = createRequire(`${process.env.MODULES}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { z } = await load("zod");

function make() {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  addTools(z, (name, inputSchema, run) => server.registerTool(name, { inputSchema }, async (args) => text(await run(args))));
  return server;
}

if (process.argv[2] === "stdio") {
  await make().connect(new StdioServerTransport());
} else {
  const enableJsonResponse = process.argv[3] === "fast";
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (transport === undefined) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        enableJsonResponse,
        onsessioninitialized: (made) => sessions.set(made, transport),
        onsessionclosed: (ended) => sessions.delete(ended),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(Number(process.argv[2]), "127.0.0.1");
}
