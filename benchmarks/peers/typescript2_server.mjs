// The bench tools on version 2 of the official TypeScript SDK: `typescript2_server.mjs stdio|PORT`.
// Over HTTP the fetch handler behind node:http, as its Node adapter does. MODULES: the folder with node_modules.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

import { addTools, text } from "./tools.mjs";

const require = createRequire(`${process.env.MODULES}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer, createMcpHandler } = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
const { z } = await load("zod");

function make() {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  addTools(z, (name, input, run) =>
    server.registerTool(name, { inputSchema: z.object(input) }, async (args) => text(await run(args))));
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(make);
} else {
  const handler = createMcpHandler(make);
  const http = createServer(async (request, response) => {
    const method = request.method;
    const answer = await handler.fetch(
      new Request(`http://${request.headers.host}${request.url}`, {
        method,
        headers: request.headers,
        body: method === "POST" ? Readable.toWeb(request) : undefined,
        duplex: "half",
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on("error", () => {}).pipe(response);
    else response.end();
  });
  http.listen(Number(process.argv[2]), "127.0.0.1");
}
