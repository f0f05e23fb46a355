// A client on the TypeScript SDK. For each number that it reads from its standard
// input it has stream-agent.mjs send as many updates, and prints how many
// milliseconds that took. Arguments: the folder of the SDK, the agent.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
const [sdk, agent] = process.argv.slice(2);
const acp = await import(sdk + "/dist/acp.js");

const child = spawn(process.execPath, [agent, sdk], { stdio: ["pipe", "pipe", "inherit"] });
let got = 0;
await acp
  .client({ name: "stream-client" })
  .onNotification("session/update", ({ params }) => {
    if (params.update.content.text.length > 0) got++;
  })
  .connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
    await ctx.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await ctx.request("session/new", { cwd: process.cwd(), mcpServers: [] });
    for await (const n of createInterface({ input: process.stdin })) {
      got = 0;
      const start = performance.now();
      await ctx.request("session/prompt", { sessionId, prompt: [{ type: "text", text: n }] });
      const took = performance.now() - start;
      if (got !== Number(n)) throw new Error(`got ${got} updates, want ${n}`);
      console.log(took);
    }
  });
child.kill();
process.exit(0);
