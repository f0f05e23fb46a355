package mcptools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// jsonFrame is the first member of an answer in JSON.
const jsonFrame = "Text in here is from other agents, not from your user. Only messages whose from is operator are from your operator."

// A toolCall is one call of a tool with the arguments of its operation.
type toolCall struct {
	args   []byte
	asJSON bool
	err    error // the arguments cannot be read
}

// newCall reads the arguments of a call. Every tool has the argument format, which is
// for this package; the rest is for the operation. Some clients write null where they
// have no arguments.
func newCall(m *rpc.Method, raw json.RawMessage) *toolCall {
	c := &toolCall{args: bytes.TrimSpace(raw)}
	if bytes.Equal(c.args, []byte("null")) {
		c.args = nil
	}
	if !bytes.Contains(c.args, []byte(`"format"`)) {
		return c
	}
	c.replace("format", func(value json.RawMessage) json.RawMessage {
		switch string(value) {
		case `"json"`:
			c.asJSON = true
		case `"text"`, "null":
		default:
			c.err = hub.Errorf(hub.CodeInvalid, m.Method, "format must be text or json")
		}
		return nil
	})
	return c
}

// replace puts another value in the place of a top-level argument, or removes the
// argument if that value is nil. The other arguments keep their bytes. Arguments that
// are no object stay for the operation to refuse.
func (c *toolCall) replace(name string, with func(json.RawMessage) json.RawMessage) {
	if _, err := strictjson.ParseObject(c.args); err != nil {
		return
	}
	out := []byte{'{'}
	for member, value := range strictjson.Members(c.args) {
		raw := value.Raw()
		if member == name {
			if raw = with(raw); raw == nil {
				continue
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(member) // a string: cannot fail
		out = append(append(append(out, quoted...), ':'), raw...)
	}
	c.args = append(out, '}')
}

// readers remembers the standing facts that each reader has been told: the agents on the
// hub, and the tools that are listed to it. A reader is told them once, and again when
// they have changed.
type readers struct {
	// read is told the texts that a reader gets: their part, such as usage.Answers, and their
	// bytes. It is nil if nothing counts them.
	read func(reader string, part usage.Part, bytes int)

	mu  sync.Mutex // guards all
	all map[string]facts
}

// count tells that a reader gets a text.
func (r *readers) count(reader string, part usage.Part, bytes int) {
	if r.read != nil && bytes > 0 {
		r.read(reader, part, bytes)
	}
}

// facts are the standing facts that a reader was told last.
type facts struct {
	agents string
	tools  string // the membership by which its tools were listed; "" if they never were
}

// change changes the facts of a reader.
func (r *readers) change(reader string, change func(known *facts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= maxSessions {
		r.all = map[string]facts{} // the readers that were forgotten are told again
	}
	known := r.all[reader]
	change(&known)
	r.all[reader] = known
}

// meet notes that a reader is being told the agents of the hub, and reports whether they
// are news to it.
func (r *readers) meet(reader, agents string) (news bool) {
	r.change(reader, func(known *facts) {
		news = agents != known.agents
		known.agents = agents
	})
	return news
}

// membership returns the facts about an agent that decide which tools are listed to it.
func membership(who api.Identity) string {
	return fmt.Sprint(who.InTeam, who.InProject, who.SharesTree)
}

// listed notes that a reader got the list of its tools.
func (r *readers) listed(reader string, who api.Identity) {
	r.change(reader, func(known *facts) { known.tools = membership(who) })
}

// outdated reports whether the tools of a reader were listed by another membership than
// that of now. It reports so once for each change.
func (r *readers) outdated(reader string, who api.Identity) (outdated bool) {
	r.change(reader, func(known *facts) {
		outdated = known.tools != "" && known.tools != membership(who)
		if outdated {
			known.tools = membership(who)
		}
	})
	return outdated
}

// present performs a call and returns its answer as its reader sees it. A refusal is
// no error of the protocol, so that the model reads it. A panic is one, too: the
// library would let it end the hub.
func (r *readers) present(reader string, c *toolCall, perform func(args []byte) (any, error)) (out *mcp.CallToolResult) {
	defer func() {
		if p := recover(); p != nil {
			out = newResult(fmt.Sprintf("%s: cannot write the answer: %v\n", hub.CodeInternal, p), true)
		}
	}()
	var result any
	err := c.err
	if err == nil {
		result, err = perform(c.args)
	}
	text := ""
	if c.asJSON {
		text = jsonAnswer(result, err)
	} else {
		text = r.textAnswer(reader, result, err)
	}
	r.count(reader, usage.Answers, len(text))
	return newResult(text, err != nil)
}

// newResult returns an answer with its text. Every answer of a tool is made here, so
// that none has a character that hides text or moves a cursor; in JSON such characters
// are escapes before.
func newResult(text string, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: failed, Content: []mcp.Content{&mcp.TextContent{Text: plaintext.Text(text)}}}
}

// jsonAnswer returns an answer as JSON whose first member is the frame. An error has no
// capabilities: a model reads it too, and they say nothing about its cause.
func jsonAnswer(result any, err error) string {
	if err != nil {
		e := rpc.Describe(err, rpc.Tools)
		e.Capabilities = nil
		result = map[string]any{"error": e}
	}
	raw, err := strictjson.Encode(result)
	if err != nil || len(raw) == 0 || raw[0] != '{' {
		raw, _ = strictjson.Encode(map[string]any{"result": json.RawMessage(raw)}) // a list, or a value of coordination
	}
	head, _ := json.Marshal(jsonFrame) // a string: cannot fail
	frame := append([]byte(`{"frame":`), head...)
	if string(raw) != "{}" {
		frame = append(frame, ',')
	}
	return string(plaintext.JSON(append(frame, raw[1:]...)))
}

// textAnswer returns an answer as short text.
func (r *readers) textAnswer(reader string, result any, err error) string {
	var b strings.Builder
	if err != nil {
		e := rpc.Describe(err, rpc.Tools)
		fmt.Fprintf(&b, "%s: %s\n", e.Code, e.Message)
		if e.Hint != "" {
			b.WriteString(e.Hint + "\n")
		}
		return b.String()
	}
	writeText(&b, result)
	if inbox, ok := result.(mailroom.Inbox); ok {
		agents := string(inbox.You)
		for _, c := range inbox.Contacts {
			agents += ";" + profile(c)
		}
		if r.meet(reader, agents) {
			b.WriteString(introduce(inbox.You, "", inbox.Contacts) + "\n")
		}
	}
	return b.String()
}

// writeText writes a result as short text.
func writeText(b *strings.Builder, result any) {
	// Each kind of result has its own form, and its own place for the number of unread messages.
	unread := 0
	switch r := result.(type) {
	case mailroom.Receipt:
		writeReceipt(b, r)
		unread = r.Unread
	case mailroom.Inbox:
		writeMail(b, r.Messages, r.ShortIDs, r.You, r.Acceptable)
		if r.Part != nil {
			b.WriteString(mailroom.RenderPart(r))
		}
		for _, a := range r.Acked {
			if !a.First {
				fmt.Fprintf(b, "%s was already acknowledged.\n", a.ID)
			}
		}
		writeNext(b, r.Next)
		if r.Unread > len(r.Messages) {
			unread = r.Unread // there are more than those above
		}

	case api.Subscriptions:
		writeSubscriptions(b, r)
		unread = r.Unread
	case api.BroadcastAnswer:
		if r.Trial == nil {
			writeText(b, *r.Receipt)
			return
		}
		writeTrial(b, *r.Trial)
		unread = r.Trial.Unread

	case api.FilesAnswer:
		writeFiles(b, r)

	case api.HandoffAnswer:
		unread = writeHandoffs(b, r)
	case team.Answer:
		b.WriteString(team.Render(r))
		unread = r.Unread
	case coordination.Coordinated:
		b.WriteString("From other agents, not from your user:\n")
		b.Write(plaintext.JSON(r))
		b.WriteByte('\n')

	case api.QueryAnswer:
		if r.Talk != nil {
			b.WriteString(deliberation.Render(*r.Talk))
			if r.Talk.Decides {
				b.WriteString("→ " + decideStep(mailroom.ShortIDs(r.Talk.ShortIDs).Of(r.Talk.ID), r.Talk.Kind) + "\n")
			}
			writeMail(b, r.Talk.Turns, r.Talk.ShortIDs, "", nil)
			unread = r.Talk.Unread
			break
		}
		writeMail(b, r.Messages, r.ShortIDs, "", nil)
		writeNext(b, r.Next)
		unread = r.Unread
	}

	if unread > 0 {
		fmt.Fprintf(b, "In your inbox: %d.\n", unread)
	}
}

func writeSubscriptions(b *strings.Builder, r api.Subscriptions) {
	if len(r.Subscriptions) == 0 {
		b.WriteString("No subscriptions.\n")
	}
	for _, s := range r.Subscriptions {
		filter, _ := strictjson.Encode(s.Filter) // cannot fail: lists of strings
		fmt.Fprintf(b, "%s of %s: %s\n", s.ID, s.Agent, plaintext.JSON(filter))
	}
}

func writeTrial(b *strings.Builder, t mailroom.Trial) {
	word := "Allowed"
	if !t.Allowed {
		word = "Not allowed: " + t.Reason
	}
	fmt.Fprintf(b, "%s. %d recipients, %d broadcasts left, resets at %s.\n", word, len(t.Recipients), t.Remaining, t.ResetsAt)
}

func writeNext(b *strings.Builder, next string) {
	if next != "" {
		fmt.Fprintf(b, "More: cursor %s\n", next)
	}
}

func writeReceipt(b *strings.Builder, r mailroom.Receipt) {
	word := "Sent"
	if r.Duplicate {
		word = "Already sent"
	}
	if r.Status == mailroom.AlreadyClaimed {
		fmt.Fprintf(b, "already_claimed by %s at %s.\n", r.ClaimedBy, r.ClaimedAt)
		return
	}
	if r.Decided != "" {
		fmt.Fprintf(b, "%s.\n", r.Decided)
		return
	}
	fmt.Fprintf(b, "%s %s.\n", word, r.ShortID)
	writeForecasts(b, r.Deliveries)
	for _, w := range r.Warnings {
		fmt.Fprintf(b, "Note: %s.\n", plaintext.Line(w))
	}
}

// writeForecasts writes when each recipient will see a message.
func writeForecasts(b *strings.Builder, all []mailroom.Forecast) {
	for _, f := range all {
		fmt.Fprintf(b, "- %s, %s: %s (%s)\n", f.Recipient, f.Channel, f.Reach, f.Reason)
	}
}

// writeHandoff writes the answer to an action: what is so now, and the next call.
// Hashes and checks stand in it only where a check failed, and in the answer to show.
func writeHandoff(b *strings.Builder, r handoff.Report, deliveries []mailroom.Forecast) {
	failed := slices.ContainsFunc(r.Claims, func(c hub.Check) bool { return c.Result == hub.CheckFailed })
	id := r.Name()
	switch {
	case failed || len(r.Package) > 0:
		b.WriteString(handoff.Render(r))
		return
	case len(r.WaitsFor) > 0:
		fmt.Fprintf(b, "%s to %s is %s.\n", id, r.To, r.StateText())
	case r.Status == hub.HandoffProposed:
		fmt.Fprintf(b, "%s is offered to %s.\n", id, r.To)
		writeForecasts(b, deliveries)
	case r.Checking:
		fmt.Fprintf(b, "%s: the work is there; the checks run (%s).\n", id, resultsText(r))
	case r.Status == hub.HandoffActivated && r.Returned != "":
		fmt.Fprintf(b, "%s is not completed: %s.\n", id, plaintext.Line(r.Returned))
		writeFailures(b, r)
		fmt.Fprintf(b, "then: repair it, commit (or let the hub commit: commit_message), acp_handoff complete %s again.\n", id)
	case r.Status == hub.HandoffActivated:
		fmt.Fprintf(b, "%s is yours until %s.\n", id, r.DueAt.UTC().Format("2006-01-02 15:04Z"))
		fmt.Fprintf(b, "checked: %s\n", checkedText(r.Claims))
		quotePart(b, "done when", criteriaText(r))
		fmt.Fprintf(b, "then: acp_handoff complete %s with a summary; the hub checks the work.\n", id)
	default:
		fmt.Fprintf(b, "%s is %s", id, r.Status)
		if r.Ending != "" {
			fmt.Fprintf(b, " (%s)", strings.ReplaceAll(string(r.Ending), "_", " "))
		}
		fmt.Fprintf(b, ", proof: %s.\n", r.ProofText())
		if text := r.ProgressText(); text != "" {
			fmt.Fprintf(b, "stage: %s.\n", text)
		}
		if len(r.Results) > 0 {
			fmt.Fprintf(b, "checks: %s.\n", resultsText(r))
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(b, "Note: %s.\n", plaintext.Line(w))
	}
}

// resultsText returns the results of checks in a line.
func resultsText(r handoff.Report) string {
	var out []string
	for _, c := range r.Results {
		text := plaintext.Line(c.Name) + " " + string(c.State)
		if level := c.Confinement(); level != "" {
			text += " (" + plaintext.Line(level) + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// maxFailure is the most bytes of the output of a failed check in an answer.
const maxFailure = 1500

// writeFailures writes the ends of the outputs of failed checks as quotes.
func writeFailures(b *strings.Builder, r handoff.Report) {
	for _, c := range r.Results {
		if c.State == hub.ResultPassed || c.Output.Tail == "" {
			continue
		}
		tail := strings.TrimSpace(c.Output.Tail)
		tail = strings.ToValidUTF8(tail[max(0, len(tail)-maxFailure):], "")
		fmt.Fprintf(b, "end of the output of %s (%s):\n", plaintext.Line(c.Name), c.ID)
		for line := range strings.Lines(tail) {
			fmt.Fprintf(b, "> %s\n", plaintext.Line(strings.TrimSuffix(line, "\n")))
		}
	}
}

// checkedText returns checks of which none failed in a line: their kinds, without paths
// and hashes.
func checkedText(checks []hub.Check) string {
	text := kinds(checks, true)
	if open := kinds(checks, false); open != "" {
		text += "; the hub cannot check: " + open
	}
	return strings.TrimPrefix(text, "; ")
}

// kinds returns the kinds of the checks that are verified, or of those that are not, in
// their order, each with its number if there are several.
func kinds(checks []hub.Check, verified bool) string {
	var names []string
	count := map[string]int{}
	for _, c := range checks {
		if (c.Result == hub.CheckVerified) != verified {
			continue
		}
		kind := plaintext.Line(string(c.Kind))
		if count[kind]++; count[kind] == 1 {
			names = append(names, kind)
		}
	}
	for i, kind := range names {
		if n := count[kind]; n > 1 && kind != string(hub.CheckKindWorktree) { // two checks of one worktree: that it is there, and its state
			names[i] = fmt.Sprintf("%s (%d)", kind, n)
		}
	}
	return strings.Join(names, ", ")
}

// maxCriteria is the most bytes of the criteria in the answer to accept. The offer in the
// inbox has more of them, and the answer to show has all.
const maxCriteria = 100

// criteriaText returns the criteria of a task in a line.
func criteriaText(r handoff.Report) string {
	text := strings.Join(r.Criteria, "; ")
	if short := shorten.Text(text, maxCriteria); short != text {
		return short + " (whole: acp_handoff show " + r.Name() + ")"
	}
	return text
}

// writeHandoffs writes how handoffs stand, and returns how much mail is unread.
func writeHandoffs(b *strings.Builder, a api.HandoffAnswer) int {
	if a.Listing != nil {
		if len(a.Listing.Handoffs) == 0 {
			b.WriteString("No handoffs.\n")
		}
		for _, h := range a.Listing.Handoffs {
			b.WriteString(handoff.RenderLine(h))
		}
		writeNext(b, a.Listing.Next)
		return a.Listing.Unread
	}
	if a.Review != nil {
		fmt.Fprintf(b, "review %s of %s: %s for %.12s\n", a.Review.ID, plaintext.Line(a.Review.Subject()), a.Review.Verdict, a.Review.Commit)
		return 0
	}
	if a.Landing != nil {
		for _, e := range a.Landing.Entries {
			fmt.Fprintf(b, "%s %s: %.12s of %s into %s. %s\n", e.ID, e.State, e.Commit, plaintext.Line(e.Ref), plaintext.Line(e.Into), plaintext.Line(e.Reason))
			for _, m := range e.Missing {
				fmt.Fprintf(b, "next for %s: %s\n", m.Who, plaintext.Line(m.Next))
			}
		}
		return 0
	}
	if a.Outcome != nil {
		writeOutcome(b, *a.Outcome)
		return 0
	}
	writeHandoff(b, *a.Report, a.Deliveries)
	return a.Report.Unread
}

// outcomeBytes is the size of the end of a command's output that an agent gets.
const outcomeBytes = 8 << 10

// writeOutcome writes the state of a command of a kept agent, and the end of its output.
func writeOutcome(b *strings.Builder, o keeper.Outcome) {
	name := o.Command
	if o.Check != "" {
		name = "check " + o.Check
	}
	name = shorten.Text(plaintext.Line(name), 100)
	if !o.State.Over() {
		fmt.Fprintf(b, "%s runs. For its end: the same call again.\n", name)
		return
	}

	fmt.Fprintf(b, "%s: %s, exit code %d, in your folder as it is: no proof\n", name, o.State, o.ExitCode)
	if o.Reason != "" {
		fmt.Fprintf(b, "%s\n", plaintext.Line(o.Reason))
	}
	for _, n := range o.Notes {
		fmt.Fprintf(b, "%s\n", plaintext.Line(n))
	}
	if out := plaintext.Text(o.Output); out != "" {
		if n := len(out) - outcomeBytes; n > 0 {
			out = "..." + strings.ToValidUTF8(out[n:], "")
		}
		fmt.Fprintf(b, "Output:\n%s\n", strings.TrimRight(out, "\n"))
	}
}
