package continuation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

const (
	maxTokens    = 1100 // of the text that an agent reads next, as tokens estimates them: less than 1,200
	maxField     = 700  // bytes of one of its parts
	minField     = 40   // bytes of a part of a text that would be too long otherwise
	maxFolder    = 300  // bytes of a path of a folder in it
	maxPaths     = 12   // files that it names
	maxQuestions = 5
)

// contents are the members of a package that the texts need.
type contents struct {
	Task struct {
		Objective string   `json:"objective"`
		Criteria  []string `json:"success_criteria"`
	} `json:"task"`
	Context struct {
		Summary string `json:"summary"`
	} `json:"context"`
	Work struct {
		Next     string `json:"next_step"`
		Worktree string `json:"worktree_path"`
		Branch   string `json:"branch"`
	} `json:"work_state"`
	Continuation json.RawMessage `json:"continuation"` // of a package that the hub made
}

// loadTask reads what belongs to the work of an owner that stops.
func loadTask(r hub.Reader, h hub.Handoff) (t task, err error) {
	t = task{handoff: h}
	json.Unmarshal(h.Package, &t.pkg) // members of another type are left out
	if t.open, err = newest(r, h, hub.ContinuationWaiting, hub.ContinuationOffered); err != nil {
		return t, err
	}

	if t.team, err = teamSuccessors(r, h); err != nil {
		return t, err
	}
	reserved, err := r.Reservations().OfAgent(h.To)
	if err != nil {
		return t, err
	}
	for _, v := range reserved {
		isHere := t.pkg.Work.Worktree == "" || v.Tree.Path == t.pkg.Work.Worktree
		if isHere && !slices.Contains(t.held, v.Path) {
			t.held = append(t.held, v.Path)
		}
	}

	// Its report and its questions are those that it sent since it accepted the task.
	for _, kind := range []hub.MessageType{hub.TypeStatusUpdate, hub.TypeStatusBlocked} {
		page, err := r.Query(hub.Query{Audit: true, From: h.To, Type: kind, Since: h.AcceptedAt, Limit: 1})
		if err != nil {
			return t, err
		}
		for _, m := range page.Messages {
			t.said = firstOf(t.said, textOf(m.Payload))
		}
	}
	asked, err := r.Query(hub.Query{Audit: true, From: h.To, Type: hub.TypeKnowledgeQuery, Since: h.AcceptedAt, Limit: 4 * maxQuestions})
	if err != nil {
		return t, err
	}
	for _, m := range asked.Messages {
		isOpen := m.Status == hub.StatusPending || m.Status == hub.StatusDelivered
		if text := textOf(m.Payload); isOpen && text != "" && len(t.asked) < maxQuestions {
			t.asked = append(t.asked, fmt.Sprintf("to %s: %s", m.To[0], cut(text, 200)))
		}
	}
	return t, nil
}

// textOf returns the text of a payload that agents write.
func textOf(payload json.RawMessage) string {
	var p struct {
		Message  string `json:"message"`
		Summary  string `json:"summary"`
		Question string `json:"question"`
		Text     string `json:"text"`
		Status   string `json:"status"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	return firstOf(p.Summary, p.Message, p.Text, p.Question, p.Status)
}

// onward returns how the task of a continuation is handed on.
func onward(c hub.Continuation, t task, to hub.AgentID) hub.Onward {
	o := hub.Onward{
		ID: c.ID, To: to, Reason: c.Reason, Worktree: c.Folder, Branch: c.Branch, Head: c.Head, Questions: t.asked, Rescue: c.Rescue,
		Summary:  cut(fmt.Sprintf("%s %s and cannot go on. %s", c.Of, c.Reason.Text(), done(c, t, maxField)), 3000),
		NextStep: cut(firstOf(t.pkg.Work.Next, "Look at the work so far, and finish the task."), 1500),
	}
	if o.Worktree == "" {
		o.Branch = ""
	}
	return o
}

// done says what was done and where it lies, in parts of at most field bytes.
func done(c hub.Continuation, t task, field int) string {
	var b strings.Builder
	if c.Said != "" {
		fmt.Fprintf(&b, "Done so far, in its words: %s\n", cut(c.Said, field))
	}
	isOfSender := len(t.pkg.Continuation) == 0 && t.handoff.From != "" // else the hub wrote the summary
	if isOfSender && t.pkg.Context.Summary != "" {
		fmt.Fprintf(&b, "%s wrote at its beginning: %s\n", t.handoff.From, cut(t.pkg.Context.Summary, field))
	}
	if c.Folder == "" {
		b.WriteString("The task names no folder.")
		return b.String()
	}
	fmt.Fprintf(&b, "The work is in %s", cut(c.Folder, maxFolder))
	if c.Branch != "" {
		fmt.Fprintf(&b, " on branch %s", cut(c.Branch, field))
	}
	if c.Head != "" {
		fmt.Fprintf(&b, " at commit %.12s", c.Head)
	}
	r := c.Rescue
	switch {
	case r == nil && c.Tree != "":
		b.WriteString("; nothing is uncommitted.")
	case r == nil && c.ID != "":
		b.WriteString("; the hub could not look at it.")
	case r == nil:
		b.WriteString(".")
	default:
		fmt.Fprintf(&b, ". Not committed: %s, +%d -%d lines: %s. The hub keeps them as %s until %s; ignored files are not kept.",
			files(r.Files), r.Insertions, r.Deletions, list(r.Paths, r.Files, field), r.ID, r.Until.Format("2006-01-02"))
		if len(r.Submodules) > 0 {
			fmt.Fprintf(&b, " Nor are changes inside the submodules %s.", list(r.Submodules, len(r.Submodules), field))
		}
		if len(r.Unreadable) > 0 {
			fmt.Fprintf(&b, " These files could not be read: %s.", list(r.Unreadable, len(r.Unreadable), field))
		}
	}
	return b.String()
}

// files counts files.
func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// list returns the first of some paths, in at most field bytes, and how many there are besides.
func list(paths []string, all, field int) string {
	shown := paths[:min(len(paths), maxPaths)]
	text := strings.Join(shown, ", ")
	if rest := all - len(shown); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return cut(text, field)
}

// brief returns the text that the first turn of a successor begins with. names has the handoffs of
// the continuation as agents name them. If the text is too long, each of its parts gets shorter: the
// next step and the first act are at its end, and must not be cut off.
func brief(c hub.Continuation, t task, names handoffNames) string {
	text := briefOf(c, t, names, maxField)
	for field := maxField; tokens(text) > maxTokens && field > minField; {
		field = max(field*3/4, minField)
		text = briefOf(c, t, names, field)
	}
	return text
}

// briefOf is brief with parts of at most field bytes.
func briefOf(c hub.Continuation, t task, names handoffNames, field int) string {
	var b strings.Builder
	owned := ownedName(c, t, names)
	switch {
	case c.ID == "": // before a compaction
		fmt.Fprintf(&b, "[parley] Your context was shortened in the middle of a task. You own it (%s). Continue it.\n", owned)
	case c.To == c.Of || c.To == "":
		fmt.Fprintf(&b, "[parley] You stopped in the middle of a task: %s %s. You still own it (%s). Continue it.\n", c.Of, c.Reason.Text(), owned)
	default:
		fmt.Fprintf(&b, "[parley] You continue a task of %s, which %s. First accept the handoff %s with the handoff tool of parley (acp_handoff, action accept); complete it when the work is done.\n", c.Of, c.Reason.Text(), names[c.Next])
	}
	fmt.Fprintf(&b, "Task %s: %s\n", cut(c.Task, min(field, 100)), cut(c.Title, min(field, 300)))
	if t.pkg.Task.Objective != "" {
		fmt.Fprintf(&b, "Objective: %s\n", cut(t.pkg.Task.Objective, field))
	}
	if len(t.pkg.Task.Criteria) > 0 {
		fmt.Fprintf(&b, "It is done when: %s\n", cut(strings.Join(t.pkg.Task.Criteria, "; "), field))
	}
	b.WriteString(done(c, t, field) + "\n")
	if len(t.held) > 0 {
		fmt.Fprintf(&b, "Reserved files: %s\n", list(t.held, len(t.held), field))
	}
	if len(t.asked) > 0 {
		fmt.Fprintf(&b, "Questions without an answer: %s\n", cut(strings.Join(t.asked, "; "), field))
	}
	fmt.Fprintf(&b, "Next step: %s\n", cut(firstOf(t.pkg.Work.Next, "look at the work so far, and finish the task"), field))
	if c.Folder != "" {
		b.WriteString("Begin with git status there. If it shows other changes than those above, tell the sender before you change anything.\n")
	}
	return b.String()
}

// ownedName names the work of a continuation for its owner.
func ownedName(c hub.Continuation, t task, names handoffNames) string {
	if c.Handoff == "" {
		return "task " + cut(c.Task, 100) + " of team " + string(t.handoff.Team)
	}
	return "handoff " + names[c.Handoff]
}

// shortBrief is brief in one sentence, for an agent that reads about another task, too.
func shortBrief(c hub.Continuation, t task, names handoffNames) string {
	if c.To == c.Of || c.To == "" {
		return fmt.Sprintf("[parley] You own another task: %q (%s).", cut(c.Title, 100), ownedName(c, t, names))
	}
	return fmt.Sprintf("[parley] You continue another task of %s, too: %q. Accept the handoff %s, and read its package.", c.Of, cut(c.Title, 100), names[c.Next])
}

// tokens estimates the tokens of a text from above: the table of a tokenizer is larger than the
// hub. It counts quarters of a token. An English word is one or two tokens, a hash or a random key
// nearly one for each character, and a rare character more than one.
func tokens(text string) int {
	quarters := 0
	word := 0   // characters of the word that is read
	digits := 0 // of them
	endWord := func() {
		isMixed := digits > 0 && word > digits
		isRandom := isMixed || word > 14
		switch {
		case isRandom:
			quarters += 2 + 3*word
		case digits > 0: // three digits are a token, and so is the space before them
			quarters += 8 + 4*(word/3)
		case word > 0:
			quarters += 3 + 2*word/3
		}
		word = 0
		digits = 0
	}

	for _, r := range text {
		isDigit := '0' <= r && r <= '9'
		isLetter := ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z')
		if isDigit || isLetter {
			word++
			if isDigit {
				digits++
			}
			continue
		}
		endWord()
		switch size := utf8.RuneLen(r); {
		case r == ' ': // part of the word after it
		case size <= 2:
			quarters += 3
		case isEastAsian(r):
			quarters += 4
		case size == 3:
			quarters += 6
		default:
			quarters += 16
		}
	}
	endWord()
	return (quarters + 3) / 4
}

// isEastAsian reports whether a character is one of the common ones of China, Japan and Korea.
func isEastAsian(r rune) bool {
	return (0x3000 <= r && r <= 0x9fff) || (0xac00 <= r && r <= 0xd7a3) || (0xff00 <= r && r <= 0xffef)
}

// Why a continuation waits.
const (
	waitingWhy = "it waits for a person"
	askingWhy  = "its successors are asked"
)

// stopText says that an agent cannot go on, and how a person continues its task. name is that of the
// handoff or task.
func stopText(c hub.Continuation, logIn, name string) string {
	text := stoppedText(c, logIn)
	if why, _ := strings.CutPrefix(c.Why, waitingWhy); why != "" {
		text += "; " + strings.TrimPrefix(why, "; ")
	}
	return text + fmt.Sprintf("; parley continue %s --with CLI, AGENT or self", name)
}

// offerText says that an agent cannot go on, and which agent was asked to continue its task. next is
// the handoff by which it was asked.
func offerText(c hub.Continuation, logIn, next string) string {
	return fmt.Sprintf("%s; %s is asked to continue it (%s)", stoppedText(c, logIn), c.To, next)
}

// stoppedText says that an agent cannot go on, and what is kept of its task. logIn is the line with
// which a person gives it a login again, "" if it is not known.
func stoppedText(c hub.Continuation, logIn string) string {
	text := fmt.Sprintf("%s %s", c.Of, c.Reason.Text())
	if !c.Until.IsZero() {
		text += " until " + c.Until.String()
	}
	if c.Reason == hub.ContinueLogin && logIn != "" {
		text += " (log in with: " + logIn + ")"
	}
	text += fmt.Sprintf("; its task %q (%s) is not done", cut(c.Title, 200), c.ID)
	if c.Rescue != nil {
		text += fmt.Sprintf("; its uncommitted work is kept as %s (%s, +%d -%d)", c.Rescue.ID, files(c.Rescue.Files), c.Rescue.Insertions, c.Rescue.Deletions)
	}
	return text
}

// takenText says which agent goes on with a task. name is that of the handoff or task by which it has
// it.
func takenText(c hub.Continuation, name string) string {
	if c.To == c.Of {
		return fmt.Sprintf("%s goes on with its task %q (%s)", c.Of, cut(c.Title, 200), name)
	}
	return fmt.Sprintf("the task %q of %s is taken by %s (%s)", cut(c.Title, 200), c.Of, c.To, name)
}

// doneText says that a task that was continued is done.
func doneText(c hub.Continuation, by hub.AgentID, name string) string {
	return fmt.Sprintf("the task %q is done: %s completed %s", cut(c.Title, 200), by, name)
}

// notice returns a message of the hub.
func notice(to []hub.AgentID, payload any) hub.Envelope {
	raw, err := json.Marshal(payload)
	if err != nil { // texts and ids
		raw = []byte(`{}`)
	}
	return hub.Envelope{To: to, Type: hub.TypeStatusUpdate, Topic: noticeTopic, Payload: raw}
}

// firstOf returns the first text that is not blank.
func firstOf(texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

func cut(text string, most int) string { return shorten.Bytes(text, most) }

// shortError returns the text of an error for people.
func shortError(err error) string { return cut(err.Error(), 300) }

// joined joins two sentences.
func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// joinedLines joins two texts by an empty line.
func joinedLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
