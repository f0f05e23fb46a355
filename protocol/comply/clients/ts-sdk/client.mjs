// A small client on the TypeScript SDK of the protocol: it starts an agent, sends one prompt,
// and serves files and permission. Arguments: the agent, its arguments, and the prompt.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const args = process.argv.slice(2);
const flags = {};
while (args[0]?.startsWith("--")) {
  flags[args.shift().slice(2)] = args.shift();
}
const prompt = args.pop();
const agent = spawn(args[0], args.slice(1), { stdio: ["pipe", "pipe", "inherit"] });

let cancelled = false;
const client = {
  async requestPermission(params) {
    if (cancelled) return { outcome: { outcome: "cancelled" } };
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  },
  async sessionUpdate(params) {
    const content = params.update.content;
    if (params.update.sessionUpdate === "agent_message_chunk" && content?.type === "text") {
      process.stdout.write(content.text);
    }
  },
  async readTextFile({ path, line, limit }) {
    const text = await readFile(path, "utf8");
    if (line == null && limit == null) return { content: text };
    const from = (line ?? 1) - 1;
    const lines = text.split(/(?<=\n)/);
    return { content: lines.slice(from, limit == null ? undefined : from + limit).join("") };
  },
  async writeTextFile({ path, content }) {
    await writeFile(path, content);
    return {};
  },
};

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const connection = new acp.ClientSideConnection(() => client, stream);
let session;
process.on("SIGINT", () => {
  cancelled = true;
  connection.cancel({ sessionId: session });
});
process.on("SIGTERM", () => {
  agent.kill("SIGKILL");
  process.exit(1);
});

let code = 0;
try {
  const initialized = await connection.initialize({
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    clientInfo: { name: "ts-sdk-client", version: "1.0.0" },
  });
  if (initialized.protocolVersion !== 1) throw new Error(`the agent speaks version ${initialized.protocolVersion}`);
  if (flags.login) await connection.authenticate({ methodId: flags.login });
  const cwd = process.cwd();
  if (flags.load) {
    await connection.loadSession({ sessionId: flags.load, cwd, mcpServers: [] });
    session = flags.load;
  } else {
    ({ sessionId: session } = await connection.newSession({ cwd, mcpServers: [] }));
  }
  if (flags.mode) await connection.setSessionMode({ sessionId: session, modeId: flags.mode });
  if (flags.option) await connection.setSessionConfigOption({ sessionId: session, configId: flags.option, value: flags.value });
  const result = await connection.prompt({ sessionId: session, prompt: [{ type: "text", text: prompt }] });
  if (result.stopReason !== "end_turn") code = 1;
} catch (error) {
  console.error(error);
  code = 1;
}
agent.kill("SIGKILL");
process.exit(code);
