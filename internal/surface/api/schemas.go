package api

// The input schemas of the tools. They are read by models, so every word has
// to earn its place; the operations check more than the schemas say.

// envelopeProps are the members that every tool which sends has.
const envelopeProps = `
"priority":{"enum":["low","normal","high","critical"],"description":"default normal"},
"topic":{"type":"string"},
"team":{"type":"string"},
"expires_at":{"type":"string","description":"ISO 8601; unread messages lapse then"},
"policy":{"type":"object","properties":{
 "visibility":{"enum":["private","team","human-audit"]},
 "sensitivity":{"enum":["low","moderate","high"]},
 "human_gate":{"enum":["none","required"],"description":"required: a person must approve first"}}},
"context":{"type":"object","properties":{
 "external_refs":{"type":"array","items":{"type":"object","required":["type","value"],"properties":{"type":{"enum":["workq_item","file","branch","pr","url","session","ticket","other"]},"value":{"type":"string"}}}},
 "artifacts":{"type":"array","items":{"type":"object","required":["type","path"],"properties":{"type":{"enum":["file","branch","pr","url","session","workq_item"]},"path":{"type":"string","description":"absolute"},"sha256":{"type":"string"}}}}}},
"idempotency_key":{"type":"string","description":"same key, same message: safe to retry"}`

const textProp = `"text":{"type":"string","description":"plain text, in place of payload; long text is stored and read in parts"}`

// formatProp is an argument of every tool; the surface of the tools reads it.
const formatProp = `,"format":{"enum":["text","json"]}`

const sendSchema = `{"type":"object","required":["to"],"properties":{
"to":{"type":"array","items":{"type":"string"},"description":"agent names, [\"team:NAME\"], or [\"*\"] for everyone"},
` + textProp + `,
"type":{"enum":["status.update","status.blocked","status.complete","knowledge.push","knowledge.query","knowledge.response","task.offer","task.accept","task.decline","task.counter","position.state","position.challenge","position.concede","position.escalate"],"description":"default status.update, or knowledge.query for a text that ends in ?"},
"payload":{"type":"object","description":"at most 4096 bytes. status.*: summary (max 280 characters), detail, progress_pct, blockers; blocked also reason. push: topic, summary, confidence (low|medium|high). query: question. response: query_id, answer, confidence. task.* also take text. offer: title, description, respond_by. accept, decline, counter: offer_id and conditions | reason | proposed_changes. state: topic, position, reasoning, confidence, open_to_revision. challenge: position_id, counter_position, reasoning, severity (minor|significant|blocking)"},
"thread_id":{"type":"string","description":"leave out to begin a thread"},
"reply_to":{"type":"string","description":"id of the message answered, such as m17"},` + envelopeProps + formatProp + `}}`

const respondSchema = `{"type":"object","required":["reply_to"],"properties":{
"reply_to":{"type":"string","description":"id of the message you answer"},
` + textProp + `,
"payload":{"type":"object","description":"as in acp_send, and so are context and policy"},
"type":{"type":"string","description":"default: knowledge.response to a knowledge.query, else as in acp_send"},
"priority":{"type":"string"},
"idempotency_key":{"type":"string"}` + formatProp + `}}`

const subscribeSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["add","list","remove"]},
"filter":{"type":"object","description":"add: every member must match, by any value","properties":{"from":{"type":"array","items":{"type":"string"}},"topics":{"type":"array","items":{"type":"string"},"description":"auth/* for all below"},"teams":{"type":"array","items":{"type":"string"}},"types":{"type":"array","items":{"type":"string"}},"priority_min":{"type":"string"}}},
"id":{"type":"string","description":"remove"}` + formatProp + `}}`

const broadcastSchema = `{"type":"object","properties":{
"text":{"type":"string"},
"payload":{"type":"object","description":"as in acp_send, and so are all other arguments"},
"type":{"type":"string"},
"priority":{"type":"string"},
"dry_run":{"type":"boolean","description":"only say whether it is allowed, and who gets it"}` + formatProp + `}}`

const statusSchema = `{"type":"object","required":["state","summary"],"properties":{
"state":{"enum":["update","blocked","complete"]},
"summary":{"type":"string","description":"one sentence"},
"detail":{"type":"string"},
"progress_pct":{"type":"integer","minimum":0,"maximum":100},
"blockers":{"type":"array","items":{"type":"string"}},
"to":{"type":"array","items":{"type":"string"},"description":"default: the coordinators"},
"thread_id":{"type":"string"},
"reply_to":{"type":"string"},
"priority":{"enum":["low","normal","high","critical"]},
"idempotency_key":{"type":"string"}` + formatProp + `}}`

const inboxSchema = `{"type":"object","properties":{
"wait_s":{"type":"integer","minimum":0,"maximum":300,"description":"if empty, wait this many seconds for mail; 25 suits every client"},
"id":{"type":"string","description":"read this one message"},
"part":{"type":"integer","minimum":1,"description":"with id: this part of its long text"},
"ack":{"description":"true: mark all returned as read; or ids you have dealt with","oneOf":[{"type":"boolean"},{"type":"array","items":{"type":"string"}}]},
"new_only":{"type":"boolean","description":"skip what you fetched before"},
"limit":{"type":"integer","minimum":1,"maximum":200},
"cursor":{"type":"string","description":"next of the page before"}` + formatProp + `}}`

const querySchema = `{"type":"object","properties":{
"agent":{"type":"string","description":"sender or recipient"},
"from":{"type":"string"},
"to":{"type":"string"},
"thread_id":{"type":"string"},
"team":{"type":"string","description":"messages of your team"},
"type":{"type":"string"},
"status":{"enum":["pending","delivered","read","expired","failed"]},
"topic":{"type":"string"},
"since":{"type":"string","description":"ISO 8601"},
"until":{"type":"string"},
"text":{"type":"string","description":"words that must all occur"},
"negotiation":{"type":"string","description":"id of an offer: its state and what you may do"},
"disagreement":{"type":"string","description":"id of a first position"},
"limit":{"type":"integer","minimum":1,"maximum":200},
"cursor":{"type":"string"}` + formatProp + `}}`

const teamSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["create","list","show","add","remove","role","task","decide","artifact","merge","status","close","archive"]},
"team":{"type":"string","description":"all but list"},
"objective":{"type":"string","description":"create"},
"members":{"type":"array","description":"create","items":{"type":"object","required":["agent","role"],"properties":{"agent":{"type":"string"},"role":{"type":"string"}}}},
"policy":{"type":"object","description":"create: max_parallel_tasks, human_gate_actions, default_visibility"},
"agent":{"type":"string","description":"add, remove, role"},
"role":{"enum":["coordinator","researcher","executor","reviewer","integrator"]},
"swap_with":{"type":"string"},
"accept":{"type":"boolean","description":"role: answer a proposal"},
"reason":{"type":"string","description":"role, by a coordinator, at once: load_balance|coverage|handoff|incident|conflict_of_interest. task blocked: dependency|access|decision|review|failing_checks|capacity|other; rework and dropped: why"},
"lifecycle":{"enum":["forming","active","incident","stabilizing","closed","archived"],"description":"status: move to it"},
"task":{"type":"string","description":"such as T-12; without it task creates one"},
"title":{"type":"string"},
"class":{"enum":["normal","merge","guarded","high_risk"]},
"depends_on":{"type":"array","items":{"type":"string"}},
"owner":{"type":"string","description":"task: assign it"},
"reviewer":{"type":"string"},
"state":{"enum":["backlog","assigned","in_progress","in_review","rework","blocked","done","dropped"],"description":"task: move it"},
"decision":{"type":"string"},
"rationale":{"type":"string"},
"artifact":{"type":"string","description":"no content: read"},
"parent_version":{"type":"integer","description":"that you changed; 0: new"},
"content":{"type":"string"},
"sign_off":{"type":"boolean"},
"version":{"type":"integer"},
"cursor":{"type":"string"}` + formatProp + `}}`

const handoffSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["initiate","approve","accept","reject","withdraw","complete","activate","close","show","list"],"description":"show gives the package. accept verifies it, then the task is yours"},
"handoff_id":{"type":"string","description":"such as h3; all but initiate and list"},
"to":{"type":"string","description":"initiate: who takes over"},
"task_id":{"type":"string"},
"team":{"type":"string","description":"initiate: the task is on its board, and a member approves first"},
"title":{"type":"string"},
"summary":{"type":"string","description":"initiate: what one must know; complete: what was done"},
"next_step":{"type":"string"},
"success_criteria":{"type":["array","string"],"items":{"type":"string"},"description":"initiate: one or more"},
"artifacts":{"type":"array","description":"what was made; complete too","items":{"type":"object","required":["type","path"],"properties":{"type":{"enum":["file","branch","pr","url","session","workq_item"]},"path":{"type":"string","description":"absolute"},"sha256":{"type":"string"},"version":{"type":"string","description":"commit"},"required":{"type":"boolean"}}}},
"worktree_path":{"type":"string","description":"absolute"},
"branch":{"type":"string"},
"package":{"type":"object","description":"initiate: whole package, in place of the members above"},
"reason":{"type":"string","description":"reject: missing_artifact|hash_mismatch|schema_invalid|policy_violation|capacity_unavailable|capability_mismatch|success_criteria_ambiguous|ownership_conflict|timeout_risk|other"},
"detail":{"type":"string","description":"reject: required"},
"no_changes":{"type":"boolean","description":"complete: nothing had to be changed"},
"unproven":{"type":"string","description":"initiate: why the files lie where the hub cannot check them"},
"state":{"type":"string","description":"list: proposed, activated, ..."},
"mine":{"type":"boolean"}` + formatProp + `},` + handoffRules + `}`

// handoffRules are the members that each action needs. They are a chain of if and else,
// because the services behind several clients refuse oneOf, anyOf and allOf at the top
// of a tool's schema.
const handoffRules = `
"if":{"properties":{"action":{"const":"initiate"}}},
"then":{"required":["to"],"anyOf":[{"required":["package"]},{"required":["task_id","title","summary","next_step","success_criteria"]}]},
"else":{"if":{"properties":{"action":{"const":"list"}}},
"else":{"required":["handoff_id"],"if":{"properties":{"action":{"const":"reject"}}},"then":{"required":["reason","detail"]}}}`
