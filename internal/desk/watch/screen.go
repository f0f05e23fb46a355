package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

const (
	maxRows = 500 // messages that are kept
	maxText = 400 // characters of a message that are kept
	wide    = 110 // columns from which agents and handoffs stand beside the messages
)

// A row is a message in the feed.
type row struct {
	at          time.Time
	names, text string
}

// A reading is what the reader found: a new state of the hub, or of the way to it.
type reading struct {
	now      *api.Overview // nil if it was not read
	handoffs []handoff.Report
	messages []hub.Envelope
	short    mailroom.ShortIDs // of the messages
	problem  string            // why the hub cannot be read; "" if it can
}

// An outcome is the result of an answer.
type outcome struct {
	text   string
	failed bool
}

// A screen is the state of the terminal. Update and View cost no more than its bounds,
// however much arrives.
type screen struct {
	url           string
	width, height int
	when          func(hub.Time) string // writes times in messages; nil for UTC

	now      api.Overview
	items    []attention.Item
	handoffs []handoff.Report
	rows     []row // oldest first, at most maxRows
	dropped  int   // older rows that are not kept
	problem  string
	note     outcome

	chosen string // the key of the item that the cursor is on; "" for none
	whole  bool   // the item is shown whole
	back   int    // rows that the feed is scrolled back

	answer func(w api.Waiting, i attention.Item, yes bool) tea.Cmd
}

// Init begins nothing: the reader sends readings by itself.
func (s screen) Init() tea.Cmd { return nil }

// Update takes a key, a size or a reading.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		return s.key(m.String())
	case reading:
		s.take(m)
	case outcome:
		s.note = m
	}
	return s, nil
}

// take adds a reading. Rows beyond the bound are dropped, the oldest first.
func (s *screen) take(n reading) {
	s.problem = n.problem
	if n.now != nil {
		s.now, s.handoffs = *n.now, n.handoffs
		before := s.items
		s.items = s.now.Waiting.Items()
		if s.at() < 0 { // it was answered: the next key must not answer another one
			s.chosen, s.whole = "", false
		}
		if len(before) == 0 && len(s.items) > 0 && s.chosen == "" {
			s.chosen = s.items[0].Key()
		}
	}
	fresh := n.messages[max(0, len(n.messages)-maxRows):]
	s.dropped += len(n.messages) - len(fresh)
	rows := slices.Clone(s.rows)
	for _, e := range fresh {
		rows = append(rows, row{e.CreatedAt.Local(), Names(e), ansi.Truncate(Text(e, n.short), maxText, "…")})
	}
	if over := len(rows) - maxRows; over > 0 {
		s.dropped += over
		rows = slices.Clone(rows[over:])
	}
	if s.back > 0 { // what is read stays in its place
		s.back = min(s.back+len(fresh), len(rows))
	}
	s.rows = rows
}

// at returns the place of the chosen item; -1 if there is none.
func (s screen) at() int {
	return slices.IndexFunc(s.items, func(i attention.Item) bool { return i.Key() == s.chosen })
}

func (s screen) key(k string) (tea.Model, tea.Cmd) {
	at := s.at()
	switch k {
	case "q", "ctrl+c":
		return s, tea.Quit
	case "up", "k":
		s.move(max(0, at-1))
	case "down", "j":
		s.move(at + 1)
	case "enter":
		s.whole = !s.whole && at >= 0
	case "esc":
		s.whole, s.back = false, 0
	case "pgup":
		s.back = min(s.back+10, max(0, len(s.rows)-1))
	case "pgdown":
		s.back = max(0, s.back-10)
	case "y", "n":
		if at < 0 {
			s.note = outcome{text: "select an item with ↑ and ↓ first", failed: true}
			break
		}
		return s, s.answer(s.now.Waiting, s.items[at], k == "y")
	}
	return s, nil
}

func (s *screen) move(to int) {
	if len(s.items) > 0 {
		s.chosen = s.items[min(to, len(s.items)-1)].Key()
	}
}

// View draws the screen.
func (s screen) View() tea.View {
	v := tea.NewView(strings.Join(s.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "parley"
	if n := len(s.items) + s.now.Waiting.More; n > 0 {
		v.WindowTitle = fmt.Sprintf("(%d) parley", n)
	}
	return v
}

func paint(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }

// lines returns exactly height lines, none wider than the terminal.
func (s screen) lines() []string {
	if s.width < 20 || s.height < 4 {
		return []string{ansi.Truncate("parley: this terminal is too small", max(0, s.width), "")}
	}
	head, foot := s.head(), s.foot()
	room := s.height - len(head) - len(foot)
	var body []string
	switch {
	case s.whole:
		body = s.text()
	default:
		body = s.body(room)
	}
	body = append(body, make([]string, max(0, room-len(body)))...)
	out := append(append(head, body[:room]...), foot...)
	for i, line := range out {
		out[i] = ansi.Truncate(clean(line), s.width, "…")
	}
	return out
}

// styles are the escape sequences of paint.
var styles = pattern.New(`\x1b\[(0|1|2|7|31|32|33|35|36|1;36)m`)

// clean returns a line without characters that hide text or move a cursor, but for the
// styles. Every line of the screen passes here, so that none can forget it.
func clean(line string) string {
	var b strings.Builder
	for {
		at := styles().FindStringIndex(line)
		if at == nil {
			return b.String() + plaintext.Line(line)
		}
		b.WriteString(plaintext.Line(line[:at[0]]) + line[at[0]:at[1]])
		line = line[at[1]:]
	}
}

func (s screen) head() []string {
	words := map[string]int{}
	for _, a := range s.now.Agents {
		words[a.Word]++
	}
	line := paint("1", "parley") + "  " + s.url
	for _, w := range api.Words {
		if words[w] > 0 {
			line += fmt.Sprintf("  %d %s", words[w], w)
		}
	}
	if s.problem != "" {
		line += "  " + paint("31", plaintext.Line(s.problem))
	}
	return []string{line}
}

// foot shows the outcome of the last answer, and the keys.
func (s screen) foot() []string {
	keys := "↑↓ select  enter read  y yes  n no  pgup pgdn scroll  esc back  q quit"
	if at := s.at(); at >= 0 {
		i := s.items[at]
		yes, no := "", ""
		if i.Yes != "" {
			yes = "  y " + plaintext.Line(i.Yes)
		}
		if i.No != "" {
			no = "  n " + plaintext.Line(i.No)
		}
		keys = "↑↓ select  enter read" + yes + no + "  pgup pgdn scroll  q quit"
	}
	note := plaintext.Line(s.note.text)
	if s.note.failed {
		note = paint("31", note)
	}
	return []string{note, paint("7", " "+keys+" ")}
}

// text shows the chosen item whole.
func (s screen) text() []string {
	i := s.items[s.at()]
	w := s.now.Waiting
	full := i.Title
	is := func(e hub.Envelope) bool { return string(e.ID) == i.ID }
	task := func(h handoff.Report) bool { return string(h.ID) == i.ID }
	if at := slices.IndexFunc(w.Messages, is); at >= 0 {
		full = mailroom.Text{Short: w.ShortIDs, When: s.when}.Messages(w.Messages[at : at+1])
	} else if at := slices.IndexFunc(w.Inbox, is); at >= 0 {
		full = mailroom.Text{Short: w.ShortIDs, Viewer: hub.Operator, When: s.when}.Messages(w.Inbox[at : at+1])
	} else if at := slices.IndexFunc(w.Handoffs, task); at >= 0 {
		full = handoff.Render(w.Handoffs[at])
	} else if at := slices.IndexFunc(w.Late, task); at >= 0 {
		full = handoff.Render(w.Late[at])
	}
	out := []string{"", paint("1", plaintext.Line(i.Fact)), ""}
	for line := range strings.SplitSeq(strings.TrimSpace(full), "\n") {
		out = append(out, strings.Split(ansi.Wrap(plaintext.Line(line), s.width, ""), "\n")...)
	}
	return append(out, "", paint("2", plaintext.Line(i.Command)))
}

// body shows the waiting things above all others; the feed gets the room that is left.
func (s screen) body(room int) []string {
	out := clip(s.waits(), max(2, room/2))
	room -= len(out)
	if s.width >= wide {
		left := s.width * 2 / 5
		beside := append(clip(s.agents(), max(0, room/2)), s.tasks()...)
		beside = clip(beside, room)
		feed := s.feed(room, s.width-left-1)
		for i := range room {
			a, b := "", ""
			if i < len(beside) {
				a = ansi.Truncate(beside[i], left-1, "…")
			}
			if i < len(feed) {
				b = feed[i]
			}
			out = append(out, a+strings.Repeat(" ", left-ansi.StringWidth(a))+b)
		}
		return out
	}
	out = append(out, clip(s.agents(), room/4)...)
	out = append(out, clip(s.tasks(), room/4)...)
	return append(out, s.feed(room-min(len(s.agents()), room/4)-min(len(s.tasks()), room/4), s.width)...)
}

// clip returns the first lines, the last of which says how many are left out.
func clip(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	if most <= 0 {
		return nil
	}
	return append(slices.Clone(lines[:most-1]), paint("2", fmt.Sprintf("  … %d more", len(lines)-most+1)))
}

func title(name string, n int) string { return paint("1;36", fmt.Sprintf("%s (%d)", name, n)) }

func (s screen) waits() []string {
	if len(s.items) == 0 {
		return []string{paint("1;36", "Waiting for you"), paint("2", "  nothing")}
	}
	out := []string{title("Waiting for you", len(s.items)+s.now.Waiting.More)}
	at := s.at()
	for n := range s.items { // the chosen one first, so that it is never clipped
		i := s.items[(n+max(0, at))%len(s.items)]
		mark, fact := "  ", plaintext.Line(i.Fact)
		if i.Key() == s.chosen {
			mark, fact = "> ", paint("1", fact)
		}
		line := fmt.Sprintf("%s%s  %s", mark, paint("33", string(i.Kind)), fact)
		if i.Title != "" {
			line += paint("2", ": ") + plaintext.Line(i.Title)
		}
		out = append(out, line)
	}
	if s.now.Waiting.More > 0 {
		out = append(out, fmt.Sprintf("  %d more in your inbox: parley inbox --as-operator", s.now.Waiting.More))
	}
	return out
}

var colours = map[string]string{"stuck": "31", "suspended": "31", "waiting": "33", "working": "32", "idle": "0", "paused": "35"}

func (s screen) agents() []string {
	out := []string{title("Agents", len(s.now.Agents))}
	list := slices.Clone(s.now.Agents)
	slices.SortStableFunc(list, func(a, b api.AgentNow) int {
		return slices.Index(api.Words, a.Word) - slices.Index(api.Words, b.Word)
	})
	for _, a := range list {
		colour := colours[a.Word]
		if colour == "" {
			colour = "2"
		}
		line := fmt.Sprintf("  %-16s %s", plaintext.Line(string(a.ID)), paint(colour, a.Word))
		if a.Unread > 0 {
			line += fmt.Sprintf("  %d unread", a.Unread)
		}
		if a.Files > 0 {
			line += "  " + paint("36", changes(a.Files))
		}
		if a.Doing != "" {
			line += "  " + plaintext.Line(a.Doing)
		}
		out = append(out, line)
	}
	return out
}

// changes returns the number of files that an agent changes in words.
func changes(files int) string {
	if files == 1 {
		return "changes 1 file"
	}
	return fmt.Sprintf("changes %d files", files)
}

// proofs are the colours of proof.
var proofs = map[hub.Proof]string{hub.ProofVerified: "32", hub.ProofUnproven: "33", hub.ProofRefused: "31"}

func (s screen) tasks() []string {
	out := []string{title("Handoffs", len(s.handoffs))}
	for _, h := range s.handoffs {
		proof := fmt.Sprintf("%-14s", "PROOF "+string(h.Proof))
		if colour := proofs[h.Proof]; colour != "" {
			proof = paint(colour, proof)
		}
		var parts []string
		for _, part := range []string{h.NoteCell(), fmt.Sprintf("%s → %s", h.From, h.To), string(h.Status), string(h.Stage), h.Change, h.Title} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		out = append(out, fmt.Sprintf("  %-4s %s  ", h.ShortID, proof)+plaintext.Line(strings.Join(parts, "  ")))
	}
	return out
}

// feed returns the conversation in a number of lines, the newest at the end.
func (s screen) feed(room, width int) []string {
	if room < 2 {
		return nil
	}
	name := "Messages"
	if s.back > 0 {
		name = fmt.Sprintf("Messages, %d newer below", s.back)
	}
	out := []string{paint("1;36", name)}
	end := max(0, len(s.rows)-s.back)
	begin := max(0, end-room+1)
	if begin == 0 && s.dropped > 0 && end-begin < room-1 {
		out = append(out, paint("2", fmt.Sprintf("  %d older: parley log", s.dropped)))
	}
	for _, r := range s.rows[begin:end] {
		out = append(out, ansi.Truncate(fmt.Sprintf("%s %s  %s", paint("2", r.at.Format("15:04")), paint("1", r.names), r.text), width, "…"))
	}
	return out
}
