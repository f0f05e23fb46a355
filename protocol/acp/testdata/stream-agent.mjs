// An agent on the TypeScript SDK that answers a prompt with as many updates as the
// prompt says. The folder of the SDK is the first argument.
import { Readable, Writable } from "node:stream";
const acp = await import(process.argv[2] + "/dist/acp.js");
const text = "The quick brown fox jumps over the lazy dog, ";

acp
  .agent({ name: "stream-agent" })
  .onRequest("initialize", () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest("session/new", () => ({ sessionId: "s1" }))
  .onRequest("session/prompt", async ({ params, client }) => {
    for (let n = Number(params.prompt[0].text); n > 0; n--) {
      await client.notify("session/update", {
        sessionId: "s1",
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
    }
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
