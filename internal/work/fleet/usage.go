package fleet

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/acp"
)

// A meter adds up the usage that an agent tells in one turn. The fill level of its context, which
// updates tell, too, is no usage at the end of the turn; until then it is all that some agents tell.
type meter struct {
	counts []acpCounts // of single model calls, in the order of the updates
	model  string      // that an update names
	answer *acpCounts  // of the whole turn, in the answer to the prompt
	models []acpCounts // the same by model
	cost   *acp.Usage  // the newest cost, of the whole session

	// The fill level of the context after each model call, of agents that tell it after each.
	calling hub.Tokens // of the call before, and of those before it
	before  int64      // the level after the call before
	level   int64      // the newest level; 0 after a tool call, until the next model call tells one
	began   bool       // the agent has shown words or a tool of the next model call
}

// acpCounts are the counts of model calls as agents write them over ACP, in two spellings.
type acpCounts struct {
	Model    string `json:"-"`
	Input    int64  `json:"inputTokens"`
	Output   int64  `json:"outputTokens"`
	Total    int64  `json:"totalTokens"`
	Thought  int64  `json:"thoughtTokens"`
	Read     int64  `json:"cachedReadTokens"`
	Write    int64  `json:"cachedWriteTokens"`
	InputOf  int64  `json:"input_tokens"`
	OutputOf int64  `json:"output_tokens"`
}

// tokens returns the counts with the parts of the input apart. Agents differ in whether the
// input includes cached tokens and the output includes thoughts: their total tells.
func (c acpCounts) tokens() hub.Tokens {
	t := hub.Tokens{Input: c.Input + c.InputOf, Output: c.Output + c.OutputOf, CachedRead: c.Read, CachedWrite: c.Write, Reasoning: c.Thought}
	apart := t.Input + t.Output + c.Read + c.Write
	switch c.Total {
	case 0, apart:
	case apart + c.Thought: // opencode
		t.Output += c.Thought
	case t.Input + t.Output: // Copilot, Qwen Code
		t.Input -= c.Read + c.Write
	case t.Input + t.Output + c.Thought:
		t.Input -= c.Read + c.Write
		t.Output += c.Thought
	}
	return t
}

// plausible reports whether each count is one that a turn can have. Sums of others may look right.
func (c acpCounts) plausible() bool {
	for _, n := range []int64{c.Input, c.Output, c.Total, c.Thought, c.Read, c.Write, c.InputOf, c.OutputOf} {
		if n < 0 || n > hub.MaxTokens {
			return false
		}
	}
	return true
}

// update takes the counts of an update.
func (m *meter) update(u *acp.Update) {
	if used := u.Usage(); used != nil {
		if used.Cost != "" {
			m.cost = used
		}
		m.fill(int64(used.Used))
		m.takeModel(u)
	}
	call := u.ToolCall()
	switch {
	case call == nil:
		m.began = m.began || u.Kind() == acp.KindAgentMessage || u.Kind() == acp.KindThought
	case call.Status == "completed", call.Status == "failed":
		m.closeCall()
	default:
		m.began = true
	}
	var meta json.RawMessage
	switch {
	case u.V1 != nil && u.V1.Update.AgentMessageChunk != nil:
		meta = u.V1.Update.AgentMessageChunk.Meta
	case u.V2 != nil && u.V2.Update.AgentMessageChunk != nil:
		meta = u.V2.Update.AgentMessageChunk.Meta
	}
	var has struct {
		Usage *acpCounts `json:"usage"`
	}
	isCount := len(meta) > 0 && json.Unmarshal(meta, &has) == nil && has.Usage != nil
	if isCount && len(m.counts) < maxMetered {
		m.counts = append(m.counts, *has.Usage)
	}
}

// fill takes a fill level of the context. The level of the call before may be repeated until the next
// one begins.
func (m *meter) fill(used int64) {
	isRepeated := m.level == 0 && used == m.before && !m.began
	if used > 0 && used <= hub.MaxTokens && !isRepeated {
		m.level = used
	}
}

// closeCall ends the model call that asked for a tool: the next level is that of another call.
func (m *meter) closeCall() {
	if m.level > 0 {
		m.calling = m.calling.Plus(m.newest())
		m.before = m.level
		m.level = 0
		m.began = false
	}
}

// newest returns the tokens of the newest model call, by the levels: what the call before left in the
// context was read from the cache.
func (m *meter) newest() hub.Tokens {
	cached := min(m.before, m.level)
	return hub.Tokens{Input: m.level - cached, CachedRead: cached}
}

// soFar returns the usage of a turn that runs. With byLevel the levels of the context count, if the
// agent tells nothing else before the end of its turn; their sum is right, the parts are estimates.
func (m *meter) soFar(byLevel bool) []hub.ModelCall {
	if len(m.counts) > 0 {
		return m.calls()
	}
	tokens := m.calling.Plus(m.newest())
	if !byLevel || tokens.Sum() == 0 || !tokens.Valid() {
		return nil
	}
	return []hub.ModelCall{{Model: m.model, Tokens: tokens}}
}

// maxMetered bounds the model calls of one turn.
const maxMetered = 5000

// takeModel takes the name of the model that an update about usage tells.
func (m *meter) takeModel(u *acp.Update) {
	var meta json.RawMessage
	if u.V1 != nil && u.V1.Update.UsageUpdate != nil {
		meta = u.V1.Update.UsageUpdate.Meta
	} else if u.V2 != nil && u.V2.Update.UsageUpdate != nil {
		meta = u.V2.Update.UsageUpdate.Meta
	}
	var has struct {
		Model string `json:"_claude/model"`
	}
	if len(meta) > 0 && json.Unmarshal(meta, &has) == nil && has.Model != "" {
		m.model = has.Model
	}
}

// result takes the counts of the answer to a prompt.
func (m *meter) result(r acp.Result) {
	if r.V1 == nil {
		return
	}
	for _, member := range r.V1.Extra {
		var counts acpCounts
		if member.Name == "usage" && json.Unmarshal(member.Value, &counts) == nil {
			m.answer = &counts
		}
	}
	var meta struct {
		Quota struct {
			Count  *acpCounts `json:"token_count"`
			Models []struct {
				Model string    `json:"model"`
				Count acpCounts `json:"token_count"`
			} `json:"model_usage"`
		} `json:"quota"`
	}
	if len(r.V1.Meta) == 0 || json.Unmarshal(r.V1.Meta, &meta) != nil {
		return
	}
	if m.answer == nil {
		m.answer = meta.Quota.Count
		for _, one := range meta.Quota.Models {
			one.Count.Model = one.Model
			m.models = append(m.models, one.Count)
		}
	}
	if len(meta.Quota.Models) == 1 && m.model == "" {
		m.model = meta.Quota.Models[0].Model
	}
}

// calls returns the usage of the turn: by call if the agent tells it so, else by model, else as
// one. Counts that no model has are left out.
func (m *meter) calls() (out []hub.ModelCall) {
	list := m.counts
	switch {
	case len(list) > 0:
	case len(m.models) > 0:
		list = m.models
	case m.answer != nil:
		list = []acpCounts{*m.answer}
	}
	for _, c := range list {
		if !c.plausible() {
			continue
		}
		call := hub.ModelCall{Model: c.Model, Tokens: c.tokens()}
		if call.Model == "" {
			call.Model = m.model
		}
		if call.Tokens.Valid() {
			out = append(out, call)
		}
	}
	return out
}

// TakeUsage returns the usage of the prompts since the last call, and forgets it. The ids of the calls are
// numbers. A cost is the part of the session's cost that came with the prompts; it
// belongs to the first call.
func (a *Agent) TakeUsage() []hub.ModelCall {
	out := numbered(a.used)
	a.used = nil
	cost := a.meter.cost
	a.meter = meter{}
	if cost == nil {
		return out
	}
	total, err := cost.Cost.Float64()
	isMoney := err == nil && total >= 0 && total <= hub.MaxCost/hub.Million && len(cost.Currency) == 3
	if !isMoney {
		return out
	}

	// The first cost of a session that was taken up again has turns of before in it.
	before, isKnown := a.cost, a.costKnown || !a.resumed
	a.cost, a.costKnown = total, true
	spent := int64(math.Round((total - before) * hub.Million))
	if !isKnown || spent <= 0 {
		return out
	}
	if len(out) == 0 {
		out = []hub.ModelCall{{ID: "1"}}
	}
	out[0].Cost, out[0].Currency = spent, cost.Currency
	return out
}

// UsageSoFar returns the usage of the prompts since the last TakeUsage, with that of the prompt which
// runs, as far as the agent told it. The calls have the ids that TakeUsage gives them. It is called by
// the function that gets the updates. byLevel is true for an agent that tells the fill level of its
// context after each model call.
func (a *Agent) UsageSoFar(byLevel bool) []hub.ModelCall {
	return numbered(slices.Concat(a.used, a.meter.soFar(byLevel)))
}

// numbered returns calls with their numbers as ids.
func numbered(calls []hub.ModelCall) []hub.ModelCall {
	for i := range calls {
		calls[i].ID = strconv.Itoa(i + 1)
	}
	return calls
}
