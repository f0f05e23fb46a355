// Parley in opencode: tells the hub about sessions and starts a turn when mail comes.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const parley = PARLEY_COMMAND
const wake = PARLEY_WAKE

const asked = PARLEY_ASKED // the tools that the guard is asked about before a call
const members = PARLEY_MEMBERS // the arguments that it is told, by tool

// patience is the time that a hook may take, and guardPatience the time for an answer of the
// guard, in milliseconds: the CLI has no limit of its own.
const patience = 3000
const guardPatience = 2000

// hook tells the hub of an event. It returns the answer, an object that is empty if the hub is
// away, and never fails.
function hook(event, input) {
  return new Promise((done) => {
    let child
    const timer = setTimeout(() => { done({}); if (child) child.kill() }, event === "before" ? guardPatience : patience)
    const end = (answer) => { clearTimeout(timer); done(answer) }
    try {
      child = spawn(parley[0], [...parley.slice(1), "wake", "hook", "opencode", event], { stdio: ["pipe", "pipe", "ignore"] })
      let out = ""
      child.stdout.on("data", (part) => (out += part))
      child.on("error", () => end({}))
      child.on("close", () => {
        try { end(JSON.parse(out) || {}) } catch { end({}) }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(input))
    } catch { end({}) }
  })
}

// call returns the part of a tool call that the guard is told; {} for other tools.
function call(tool, args) {
  if (!members[tool] || !args) return {}
  const told = {}
  for (const name of members[tool]) if (typeof args[name] === "string") told[name] = args[name]
  return { tool_name: tool, tool_input: told }
}

// opening is the hub's name for the session of a CLI that has none yet.
const opening = "opening"

// headless are the commands of the CLI without a screen.
const headless = ["run", "serve", "web", "acp", "github", "pr", "attach"]

// safe keeps an error of a handler away from the CLI, which would refuse a tool call for it.
const safe = (handler) => async (...args) => {
  try { return await handler(...args) } catch {}
}

export const Parley = async ({ client, directory }) => {
  let session = "" // the conversation that the user sees
  let watcher // its waiter
  let shown = "" // a notice for the next request

  const send = (id, text) => client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text }] } })
  const ask = (event, id, more) => hook(event, { hook_event_name: event, session_id: id, cwd: directory, ...more })
  const tell = async (event, id, more) => (await ask(event, id, more)).notice || ""

  // watch waits for mail to a session. Each line is a notice.
  const watch = (id, write) => {
    if (watcher) watcher.kill()
    if (!wake) return
    watcher = spawn(parley[0], [...parley.slice(1), "wake", "watch", "opencode", "--session", id, "--process", String(process.pid), "--dir", directory], { stdio: ["ignore", "pipe", "ignore"] })
    watcher.on("error", () => {})
    createInterface({ input: watcher.stdout }).on("line", safe(write))
  }
  const follow = (id) => {
    if (id === session) return
    session = id
    watch(id, (line) => send(id, line))
  }

  // Before the first prompt there is no session. Mail begins one and shows it.
  const begin = async (line) => {
    if (session) return send(session, line)
    const made = await client.session.create({ body: {} })
    follow(made.data.id)
    await send(made.data.id, line)
    await client.tui.publish({ body: { type: "tui.session.select", properties: { sessionID: made.data.id } } })
  }
  if (!process.argv.some((word) => headless.includes(word))) watch(opening, begin)
  process.on("exit", () => watcher && watcher.kill())

  const children = new Map() // sessions of subagents, with the session that started each
  const parent = (id) => { // the conversation to which a subagent belongs
    for (let i = 0; i < 100 && children.has(id); i++) id = children.get(id)
    return id
  }
  let failure = "" // the error with which the turn ended
  const models = new Map() // of the answers of the turn, by message
  const calls = new Map() // the usage of model calls since the last end of a turn, by part
  const note = (part) => {
    const t = part.tokens || {}
    const cache = t.cache || {}
    const reasoning = t.reasoning || 0
    calls.set(part.id, {
      id: part.id, model: models.get(part.messageID) || "", input: t.input || 0, output: (t.output || 0) + reasoning, reasoning,
      cached_read: cache.read || 0, cached_write: cache.write || 0, cost: part.cost || 0, at: Date.now(),
    })
  }
  const usage = () => {
    const out = [...calls.values()]
    calls.clear()
    models.clear()
    return out
  }
  const refusal = safe(async (input, output) => {
    if (!asked.includes(input.tool)) return ""
    return (await ask("before", parent(input.sessionID), call(input.tool, output.args))).deny
  })
  return {
    event: safe(async ({ event }) => {
      const p = event.properties || {}
      if (event.type === "session.created" && p.info) {
        if (p.info.parentID) { children.set(p.info.id, p.info.parentID); return }
        follow(p.info.id)
        shown = (await tell("start", p.info.id)) || shown
      }
      if (event.type === "message.updated" && p.info && p.info.role === "assistant") models.set(p.info.id, p.info.modelID)
      if (event.type === "message.part.updated" && p.part && p.part.type === "step-finish") note(p.part)
      if (event.type === "session.error" && !children.has(p.sessionID)) failure = JSON.stringify(p.error || "")
      if (event.type === "session.idle" && !children.has(p.sessionID)) {
        const error = failure
        failure = ""
        const notice = await tell("turn_end", p.sessionID, error ? { error, usage: usage() } : { usage: usage() })
        if (notice) await send(p.sessionID, notice).catch(() => {})
      }
      if (event.type === "permission.asked" || event.type === "permission.updated") await tell("waiting", p.sessionID || session)
    }),
    "chat.message": safe(async (input, output) => {
      if (children.has(input.sessionID)) return
      follow(input.sessionID)
      const prompt = output.parts.map((part) => part.text || "").join("\n")
      shown = (await tell("prompt", input.sessionID, { prompt })) || shown
    }),
    "tool.execute.before": async (input, output) => {
      const reason = await refusal(input, output)
      if (reason) throw new Error(reason) // by which the CLI refuses the call
    },
    "tool.execute.after": safe(async (input, output) => {
      const use = call(input.tool, input.args)
      if (children.has(input.sessionID) && !use.tool_name) return
      const event = children.has(input.sessionID) ? "after" : "tool"
      const notice = await tell(event, parent(input.sessionID), use)
      if (notice && output) output.output = (output.output || "") + "\n\n" + notice
    }),
    "experimental.chat.system.transform": safe(async (_input, output) => {
      if (shown) output.system.push(shown)
      shown = ""
    }),
  }
}
