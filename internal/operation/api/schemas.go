package api

// The input schemas of the tools. Every request of a model carries them, so that they
// name the members that agents use often and no others: a rare member is named by the
// error text that asks for it. The operations check more than the schemas say. None has a
// condition (if, then, else), because a model learns the same from an error when it errs.

// The members that a hub without a feature does not list.
const (
	decisionMember = `"decision":{"type":"string","description":"if you are asked to decide; text is the reason"},
`
	negotiationMember = `"negotiation":{"type":"string","description":"id of an offer"},
`
	disagreementMember = `"disagreement":{"type":"string","description":"id of a first position"},
`
	teamMember = `"team":{"type":"string"},
`
)

const sendSchema = `{"type":"object","properties":{
"to":{"type":"array","items":{"type":"string"},"description":"agents, team:NAME, @ABILITY, or *"},
"text":{"type":"string"},
"type":{"type":"string","description":"rarely needed: status.update|blocked|complete, knowledge.push|query|response, task.offer|accept|decline|counter, position.state|challenge|concede|escalate"},
"payload":{"type":"object","description":"for such a type; an error names its members"},
"reply_to":{"type":"string"},
"thread_id":{"type":"string"},
"topic":{"type":"string"},
"priority":{"enum":["low","normal","high","critical"]},
"ack_by":{"type":"string","description":"30m: ask for an ack in time"},
"idempotency_key":{"type":"string","description":"safe to retry with"},
"retry":{"type":"string","description":"alone: your message that expired or failed"}}}`

const respondSchema = `{"type":"object","required":["reply_to"],"properties":{
"reply_to":{"type":"string","description":"such as m17"},
"text":{"type":"string"},
"type":{"type":"string"},
"payload":{"type":"object"},
` + decisionMember + `"priority":{"type":"string"}}}`

const subscribeSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["add","list","remove"]},
"filter":{"type":"object","description":"add: every member must match, by any value","properties":{"from":{"type":"array","items":{"type":"string"}},"topics":{"type":"array","items":{"type":"string"},"description":"auth/* for all below"},"teams":{"type":"array","items":{"type":"string"}},"types":{"type":"array","items":{"type":"string"}},"priority_min":{"type":"string"}}},
"id":{"type":"string","description":"remove"}}}`

const broadcastSchema = `{"type":"object","properties":{
"text":{"type":"string"},
"type":{"type":"string"},
"payload":{"type":"object"},
"priority":{"type":"string"},
"dry_run":{"type":"boolean","description":"only say whether it is allowed, and who gets it"}}}`

const statusSchema = `{"type":"object","required":["state","summary"],"properties":{
"state":{"enum":["update","blocked","complete"]},
"summary":{"type":"string","description":"one sentence"},
"detail":{"type":"string"},
"progress_pct":{"type":"integer"},
"blockers":{"type":"array","items":{"type":"string"}},
"to":{"type":"array","items":{"type":"string"},"description":"default: the coordinators"}}}`

const inboxSchema = `{"type":"object","properties":{
"wait_s":{"type":"integer","description":"if empty, wait up to this many seconds; 25 suits every client"},
"id":{"type":"string","description":"read this one message"},
"part":{"type":"integer","description":"with id: a part of its long text"},
"ack":{"description":"ids you have dealt with; true: all returned","oneOf":[{"type":"boolean"},{"type":"array","items":{"type":"string"}}]},
"new_only":{"type":"boolean"},
"limit":{"type":"integer"},
"cursor":{"type":"string"}}}`

const querySchema = `{"type":"object","properties":{
"text":{"type":"string","description":"words that must all occur"},
"agent":{"type":"string","description":"sender or recipient"},
"from":{"type":"string"},
"to":{"type":"string"},
"thread_id":{"type":"string"},
"type":{"type":"string"},
"topic":{"type":"string"},
"since":{"type":"string","description":"ISO 8601"},
` + negotiationMember + disagreementMember + `"overdue":{"type":"boolean","description":"no ack in time"},
"limit":{"type":"integer"},
"cursor":{"type":"string"}}}`

const teamSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["create","list","show","add","remove","role","task","decide","decisions","artifact","merge","status","close","archive"]},
"team":{"type":"string","description":"all but list"},
"objective":{"type":"string","description":"create"},
"members":{"type":"array","description":"create","items":{"type":"object","required":["agent","role"],"properties":{"agent":{"type":"string"},"role":{"type":"string"}}}},
"policy":{"type":"object","description":"create: max_parallel_tasks, human_gate_actions, default_visibility"},
"agent":{"type":"string","description":"add, remove, role"},
"role":{"enum":["coordinator","researcher","executor","reviewer","integrator"]},
"swap_with":{"type":"string"},
"accept":{"type":"boolean","description":"role: answer a proposal"},
"reason":{"type":"string","description":"role, at once: load_balance|coverage|handoff|incident|conflict_of_interest. task blocked: dependency|access|decision|review|failing_checks|capacity|other; rework and dropped: why"},
"lifecycle":{"enum":["forming","active","incident","stabilizing","closed","archived"],"description":"status"},
"anyway":{"type":"boolean","description":"close"},
"task":{"type":"string","description":"T-12; none: create"},
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
"of":{"type":"string","description":"digest of the version that you changed"},
"sign_off":{"type":"boolean"},
"version":{"type":"integer"},
"part":{"type":"integer"},
"cursor":{"type":"string"}}}`

const filesSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["who","reserve","release","list","back"]},
"paths":{"type":"array","items":{"type":"string"},"description":"reserve: also patterns"},
"for":{"type":"string","description":"2h"},
"why":{"type":"string"},
"shared":{"type":"boolean"},
"tree":{"type":"string"}}}`

const handoffSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["initiate","accept","reject","complete","review","land","show","list","withdraw","approve","activate","close","check","run"]},
"handoff_id":{"type":"string","description":"such as h3; all but initiate and list"},
"to":{"type":"string","description":"initiate: who takes over"},
"task_id":{"type":"string"},
"title":{"type":"string"},
"summary":{"type":"string","description":"initiate: what one must know; complete: what was done"},
"next_step":{"type":"string"},
"success_criteria":{"type":"array","items":{"type":"string"}},
"artifacts":{"type":"array","description":"files needed or made","items":{"type":"object","required":["type","path"],"properties":{"type":{"enum":["file","branch","pr","url"]},"path":{"type":"string","description":"absolute"},"version":{"type":"string","description":"commit"}}}},
"worktree_path":{"type":"string","description":"absolute"},
"branch":{"type":"string"},
` + teamMember + `"reason":{"type":"string","description":"reject: capacity_unavailable, success_criteria_ambiguous, other, ..."},
"detail":{"type":"string","description":"reject"},
"expect":{"type":"object","description":"initiate: {paths:[must change], merge:true}"},
"scope":{"type":"array","items":{"type":"string"},"description":"initiate: files to reserve"},
"checks":{"type":"array","items":{"type":"string"},"description":"initiate: checks that must pass"},
"commit":{"type":"string","description":"complete: that has the work; default HEAD"},
"verdict":{"enum":["approve","changes"],"description":"review"},
"findings":{"type":"array","description":"review: what to change","items":{"type":"object","required":["path","line","text"],"properties":{"path":{"type":"string"},"line":{"type":"integer"},"text":{"type":"string"}}}},
"no_changes":{"type":"boolean","description":"complete: nothing had to be changed"},
"commit_message":{"type":"string","description":"complete: let the hub commit"},
"trivial":{"type":"string","description":"complete: why a trivial change is the task"},
"same_change_as":{"type":"string","description":"complete: handoff whose change did this"},
"command":{"type":"string","description":"without a shell; check: NAME; run: LINE"},
"state":{"type":"string","description":"list"}}}`
