// A turn of Vercel's AI SDK (chat completions, streamed): node ai_sdk_turn.mjs PREFIX, the folder of its node_modules.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const installed = createRequire(join(resolve(process.argv[2]), "here.js"));
const { streamText, stepCountIs, tool } = installed("ai");
const { createOpenAICompatible } = installed("@ai-sdk/openai-compatible");
const { z } = installed("zod");

const sage = createOpenAICompatible({ name: "sage", baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
const run = tool({
  description: "Runs a command in a shell and gives what it printed, with its exit code.",
  inputSchema: z.object({ command: z.string() }),
  execute: ({ command }) => {
    const done = spawnSync("sh", ["-c", command], { encoding: "utf8" });
    return `${done.stdout}${done.stderr}\nexit code: ${done.status}`;
  },
});
const turn = streamText({ model: sage("sage"), tools: { run }, stopWhen: stepCountIs(4), prompt: "hello" });
for await (const piece of turn.textStream) process.stdout.write(piece);
