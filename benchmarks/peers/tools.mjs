// The bench tools, for both versions of the TypeScript SDK: add(name, properties, run) registers one.
import { setTimeout as pause } from "node:timers/promises";

export function addTools(z, add) {
  add("echo", { text: z.string(), n: z.number().int() }, ({ text }) => text);
  add("add", { a: z.number().int(), b: z.number().int() }, ({ a, b }) => a + b);
  add("sleep", { seconds: z.number() }, async ({ seconds }) => (await pause(seconds * 1000), "slept"));
  add("blob", { size: z.number().int() }, ({ size }) => "x".repeat(size));
}

export const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
