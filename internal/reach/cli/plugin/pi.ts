// Parley in pi: tells the hub about the session and starts a turn when mail comes.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const parley: string[] = PARLEY_COMMAND
const wake: boolean = PARLEY_WAKE

// patience is the time that a hook may take, in milliseconds: the CLI has no limit of its own.
const patience = 3000

// hook tells the hub of an event. It returns the notice to show, "" if there is none
// or the hub is away, and never fails.
function hook(event: string, input: object): Promise<string> {
  return new Promise((done) => {
    let child: any
    const timer = setTimeout(() => { done(""); if (child) child.kill() }, patience)
    const end = (text: string) => { clearTimeout(timer); done(text) }
    try {
      child = spawn(parley[0], [...parley.slice(1), "wake", "hook", "pi", event], { stdio: ["pipe", "pipe", "ignore"] })
      let out = ""
      child.stdout.on("data", (part: any) => (out += part))
      child.on("error", () => end(""))
      child.on("close", () => {
        try { end(JSON.parse(out).notice || "") } catch { end("") }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(input))
    } catch { end("") }
  })
}

// safe keeps an error of a handler away from the CLI, which would refuse a tool call for it.
const safe = (handler: any) => async (...args: any[]) => {
  try { return await handler(...args) } catch {}
}

export default function (pi: any) {
  let session = ""
  let cwd = process.cwd()
  let watcher: any
  const tell = (event: string, more: object = {}) => hook(event, { session_id: session, cwd, ...more })
  const send = (text: string) => pi.sendUserMessage(text, { deliverAs: "followUp" })

  pi.on("session_start", safe(async (_event: any, ctx: any) => {
    if (ctx.mode && ctx.mode !== "tui") return // no person sees a turn that a notice starts
    session = ctx.sessionManager.getSessionId()
    cwd = ctx.cwd || cwd
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
  pi.on("tool_result", safe(async (event: any) => {
    if (!session) return
    const notice = await tell("tool")
    if (notice) return { content: [...(event.content || []), { type: "text", text: notice }] }
  }))
  let failure = "" // the error with which the last answer of the model ended
  pi.on("message_end", safe(async (event: any) => {
    const message = event.message || {}
    if (message.role === "assistant") failure = message.stopReason === "error" ? message.errorMessage || "error" : ""
  }))
  pi.on("agent_settled", safe(async () => {
    if (!session) return
    const notice = await tell("turn_end", failure ? { error: failure } : {})
    if (notice) send(notice)
  }))
  pi.on("session_shutdown", safe(async () => {
    if (watcher) watcher.kill()
    if (session) await tell("end")
  }))
}
