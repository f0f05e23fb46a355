// Parley in Copilot CLI: starts a turn when mail comes. The hooks of the plugin tell
// the hub about the session.
import { joinSession } from "@github/copilot-sdk/extension"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const parley = PARLEY_COMMAND

const session = await joinSession({})
const watcher = spawn(
  parley[0],
  [...parley.slice(1), "wake", "watch", "copilot", "--session", session.sessionId, "--process", String(process.ppid)],
  { stdio: ["ignore", "pipe", "ignore"] },
)
watcher.on("error", () => {})
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => { watcher.kill(); process.exit(0) })
process.on("exit", () => watcher.kill())
createInterface({ input: watcher.stdout }).on("line", (line) => session.send({ prompt: line }).catch(() => {}))
