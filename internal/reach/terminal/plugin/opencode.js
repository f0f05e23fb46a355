// Parley in opencode: tells the hub about sessions and starts a turn when mail comes.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const parley = PARLEY_COMMAND
const wake = PARLEY_WAKE

// hook tells the hub of an event. It returns the notice to show, "" if there is none
// or the hub is away.
function hook(event, input) {
  return new Promise((done) => {
    const child = spawn(parley[0], [...parley.slice(1), "wake", "hook", "opencode", event], { stdio: ["pipe", "pipe", "ignore"] })
    let out = ""
    child.stdout.on("data", (part) => (out += part))
    child.on("error", () => done(""))
    child.on("close", () => {
      try { done(JSON.parse(out).notice || "") } catch { done("") }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(input))
  })
}

export const Parley = async ({ client, directory }) => {
  let session = "" // the conversation that the user sees
  let watcher // its waiter
  let shown = "" // a notice for the next request

  const send = (id, text) => client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text }] } })
  const tell = (event, id, more) => hook(event, { session_id: id, cwd: directory, ...more })

  const follow = (id) => {
    if (id === session) return
    session = id
    if (watcher) watcher.kill()
    if (!wake) return
    watcher = spawn(parley[0], [...parley.slice(1), "wake", "watch", "opencode", "--session", id, "--process", String(process.pid), "--dir", directory], { stdio: ["ignore", "pipe", "ignore"] })
    watcher.on("error", () => {})
    createInterface({ input: watcher.stdout }).on("line", (line) => send(id, line).catch(() => {}))
  }
  process.on("exit", () => watcher && watcher.kill())

  const children = new Set() // sessions of subagents
  return {
    event: async ({ event }) => {
      const p = event.properties || {}
      if (event.type === "session.created" && p.info) {
        if (p.info.parentID) { children.add(p.info.id); return }
        follow(p.info.id)
        shown = (await tell("start", p.info.id)) || shown
      }
      if (event.type === "session.idle" && !children.has(p.sessionID)) {
        const notice = await tell("turn_end", p.sessionID)
        if (notice) await send(p.sessionID, notice).catch(() => {})
      }
      if (event.type === "permission.asked" || event.type === "permission.updated") await tell("waiting", p.sessionID || session)
    },
    "chat.message": async (input, output) => {
      if (children.has(input.sessionID)) return
      follow(input.sessionID)
      const prompt = output.parts.map((part) => part.text || "").join("\n")
      shown = (await tell("prompt", input.sessionID, { prompt })) || shown
    },
    "tool.execute.after": async (input, output) => {
      if (children.has(input.sessionID)) return
      const notice = await tell("tool", input.sessionID)
      if (notice && output) output.output = (output.output || "") + "\n\n" + notice
    },
    "experimental.chat.system.transform": async (_input, output) => {
      if (shown) output.system.push(shown)
      shown = ""
    },
  }
}
