// Parley in pi: tells the hub about the session and starts a turn when mail comes.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const parley: string[] = PARLEY_COMMAND
const wake: boolean = PARLEY_WAKE

const shown: string = PARLEY_SHOWN // the agent's name, for the line at the bottom

const asked: string[] = PARLEY_ASKED // the tools that the guard is asked about before a call
const members: any = PARLEY_MEMBERS // the arguments that it is told, by tool

// patience is the time that a hook may take, and guardPatience the time for an answer of the
// guard, in milliseconds: the CLI has no limit of its own.
const patience = 3000
const guardPatience = 2000

// hook tells the hub of an event. It returns the answer, an object that is empty if the hub is
// away, and never fails.
function hook(event: string, input: object): Promise<any> {
  return new Promise((done) => {
    let child: any
    const timer = setTimeout(() => { done({}); if (child) child.kill() }, event === "before" ? guardPatience : patience)
    const end = (answer: any) => { clearTimeout(timer); done(answer) }
    try {
      child = spawn(parley[0], [...parley.slice(1), "wake", "hook", "pi", event], { stdio: ["pipe", "pipe", "ignore"] })
      let out = ""
      child.stdout.on("data", (part: any) => (out += part))
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
function call(tool: string, args: any): any {
  if (!members[tool] || !args) return {}
  const told: any = {}
  for (const name of members[tool]) if (typeof args[name] === "string") told[name] = args[name]
  return { tool_name: tool, tool_input: told }
}

// safe keeps an error of a handler away from the CLI, which would refuse a tool call for it.
const safe = (handler: any) => async (...args: any[]) => {
  try { return await handler(...args) } catch {}
}

export default function (pi: any) {
  let session = "" // of a conversation with a person
  let guarded = "" // of any conversation
  let cwd = process.cwd()
  let watcher: any
  const ask = (event: string, id: string, more: object) => hook(event, { hook_event_name: event, session_id: id, cwd, ...more })
  const tell = async (event: string, more: object = {}) => (await ask(event, session, more)).notice || ""
  const send = (text: string) => pi.sendUserMessage(text, { deliverAs: "followUp" })

  pi.on("session_start", safe(async (_event: any, ctx: any) => {
    cwd = ctx.cwd || cwd
    guarded = ctx.sessionManager.getSessionId()
    if (ctx.mode && ctx.mode !== "tui") return // no person sees a turn that a notice starts
    session = guarded
    if (ctx.ui && ctx.ui.setStatus) ctx.ui.setStatus("parley", shown)
    await tell("start")
    if (watcher) watcher.kill()
    if (!wake) return
    watcher = spawn(parley[0], [...parley.slice(1), "wake", "watch", "pi", "--session", session, "--process", String(process.pid), "--dir", cwd], { stdio: ["ignore", "pipe", "ignore"] })
    watcher.on("error", () => {})
    createInterface({ input: watcher.stdout }).on("line", safe(send))
  }))
  pi.on("before_agent_start", safe(async (event: any) => {
    if (!session) return
    const notice = await tell("prompt", { prompt: event.prompt })
    if (notice) return { message: { customType: "parley", content: notice, display: true } }
  }))
  pi.on("tool_call", safe(async (event: any) => {
    if (!asked.includes(event.toolName)) return
    const { deny } = await ask("before", guarded, call(event.toolName, event.input))
    if (deny) return { block: true, reason: deny }
  }))
  pi.on("tool_result", safe(async (event: any) => {
    const use = { ...call(event.toolName, event.input), failed: !!event.isError }
    if (!session && !use.tool_name) return
    const { notice } = await ask(session ? "tool" : "after", guarded, use)
    if (notice) return { content: [...(event.content || []), { type: "text", text: notice }] }
  }))
  let calls: any[] = [] // the usage of model calls since the last end of a turn
  let answers = 0
  const note = (message: any) => {
    const u = message.usage
    answers++
    calls.push({
      id: message.responseId || `${guarded}-${message.timestamp || Date.now()}-${answers}`, model: message.model || "",
      input: u.input || 0, output: u.output || 0, reasoning: u.reasoning || 0, cached_read: u.cacheRead || 0, cached_write: u.cacheWrite || 0,
      cost: (u.cost && u.cost.total) || 0, at: Date.now(),
    })
  }
  const usage = () => { const out = calls; calls = []; return out }
  let failure = "" // the error with which the last answer of the model ended
  pi.on("message_end", safe(async (event: any) => {
    const message = event.message || {}
    if (message.role === "assistant" && message.usage) note(message)
    if (message.role === "assistant") failure = message.stopReason === "error" ? message.errorMessage || "error" : ""
  }))
  pi.on("agent_settled", safe(async () => {
    if (!session) return
    const notice = await tell("turn_end", failure ? { error: failure, usage: usage() } : { usage: usage() })
    if (notice) send(notice)
  }))
  pi.on("session_shutdown", safe(async () => {
    if (watcher) watcher.kill()
    if (session) await tell("end", { usage: usage() })
  }))
}
