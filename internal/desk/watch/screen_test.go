package watch

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
)

func message(n int, text string) hub.Envelope {
	payload, _ := json.Marshal(map[string]string{"summary": text})
	return hub.Envelope{
		ID: hub.EnvelopeID(fmt.Sprintf("m-%d", n)), From: "planner", To: []hub.AgentID{"builder"}, Type: hub.TypeStatusUpdate, Payload: payload,
		CreatedAt: hub.At(time.Date(2026, 2, 21, 9, 0, n, 0, time.UTC)),
	}
}

// held returns an overview in which messages wait.
func held(ids ...int) *api.Overview {
	o := &api.Overview{Agents: []api.AgentNow{{AgentProfile: api.AgentProfile{Profile: keys.Profile{Agent: hub.Agent{ID: "planner"}}}, Word: "working", Doing: "the plan"}}}
	for _, n := range ids {
		o.Waiting.Messages = append(o.Waiting.Messages, message(n, fmt.Sprintf("question %d", n)))
	}
	return o
}

func update(s screen, msgs ...tea.Msg) screen {
	for _, m := range msgs {
		next, _ := s.Update(m)
		s = next.(screen)
	}
	return s
}

func press(s string) tea.KeyPressMsg { return tea.KeyPressMsg{Text: s, Code: rune(s[0])} }

func TestScreen(t *testing.T) {
	size := tea.WindowSizeMsg{Width: 120, Height: 30}

	t.Run("10,000 messages leave a bounded number of rows, and the newest is shown", func(t *testing.T) {
		s := update(screen{}, size)
		for n := 0; n < 10_000; n += 20 { // five reads a second of 100 messages a second
			var some []hub.Envelope
			for i := range 20 {
				some = append(some, message(n+i, fmt.Sprintf("text %d %s", n+i, strings.Repeat("long ", 200))))
			}
			s = update(s, reading{messages: some})
		}
		s = update(s, reading{messages: make([]hub.Envelope, 5000)}, reading{messages: []hub.Envelope{message(1, "the last")}})
		if len(s.rows) != maxRows || cap(s.rows) > 4*maxRows || s.dropped != 15_001-maxRows {
			t.Errorf("got %d rows of a capacity of %d, %d dropped", len(s.rows), cap(s.rows), s.dropped)
		}
		for _, r := range s.rows {
			if n := ansi.StringWidth(r.text); n > maxText {
				t.Fatalf("a row keeps %d characters", n)
			}
		}
		if !strings.Contains(s.View().Content, "the last") {
			t.Error("the newest message is not shown")
		}
	})

	t.Run("every size is filled and not exceeded", func(t *testing.T) {
		o := held(1, 2, 3)
		o.Waiting.More = 4
		n := reading{now: o, handoffs: []handoff.Report{{ShortID: "h1", From: "planner", To: "builder", Title: "avatars", Status: hub.HandoffCompleted, Proof: hub.ProofVerified}}}
		for i := range 40 {
			n.messages = append(n.messages, message(i, "ein Wort 漢字 \x1b[2J\x07\u202e und mehr"))
		}
		for width := 1; width < 160; width += 7 {
			for height := 1; height < 50; height += 5 {
				s := update(screen{url: "http://127.0.0.1:7420"}, tea.WindowSizeMsg{Width: width, Height: height}, n)
				lines := strings.Split(s.View().Content, "\n")
				if len(lines) != height && len(lines) != 1 {
					t.Fatalf("%d×%d: %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if ansi.StringWidth(l) > width {
						t.Fatalf("%d×%d: %q is wider", width, height, l)
					}
					if strings.Contains(l, "\x1b[2J") || strings.ContainsAny(l, "\x07\u202e") {
						t.Fatalf("text of an agent moves the cursor: %q", l)
					}
				}
			}
		}
		s := update(screen{}, size, n)
		for _, want := range []string{"planner", "working", "the plan", "PROOF verified", "question 1", "y approve", "n deny", "q quit"} {
			if !strings.Contains(ansi.Strip(s.View().Content), want) {
				t.Errorf("%q is not shown:\n%s", want, ansi.Strip(s.View().Content))
			}
		}
	})

	t.Run("agents say how many files they change", func(t *testing.T) {
		for files, want := range map[int]string{1: "working  changes 1 file  the plan", 3: "working  changes 3 files  the plan", 0: "working  the plan"} {
			o := held()
			o.Agents[0].Files = files
			if got := ansi.Strip(update(screen{}, tea.WindowSizeMsg{Width: 200, Height: 30}, reading{now: o}).View().Content); !strings.Contains(got, want) {
				t.Errorf("%q is not shown:\n%s", want, got)
			}
		}
	})

	t.Run("the qualifications of a proof stand before the title, which an agent wrote", func(t *testing.T) {
		n := reading{now: held(1), handoffs: []handoff.Report{{
			ShortID: "h1", From: "planner", To: "builder", Title: strings.Repeat("a long title ", 20), Status: hub.HandoffClosed, Proof: hub.ProofVerified,
			ProofNote: `trivial: "` + strings.Repeat("why ", 100) + `", says builder, not committed`, Change: "README.md: whitespace only", MissingSince: hub.At(time.Now()),
		}}}
		got := ansi.Strip(update(screen{}, tea.WindowSizeMsg{Width: 100, Height: 30}, n).View().Content)
		if want := regexp.MustCompile(`h1 +PROOF verified  gone since \d\d:\d\d, trivial: "why why`); !want.MatchString(got) {
			t.Errorf("%s is not shown:\n%s", want, got)
		}
	})

	t.Run("a whole message has its time as the person reads it", func(t *testing.T) {
		s := screen{when: func(hub.Time) string { return "half past nine" }}
		s = update(s, size, reading{now: held(1)}, press("j"), tea.KeyPressMsg{Code: tea.KeyEnter})
		if got := ansi.Strip(s.View().Content); !strings.Contains(got, "half past nine") {
			t.Errorf("the time is not shown:\n%s", got)
		}
	})

	t.Run("no text of others hides or moves the cursor, wherever it stands", func(t *testing.T) {
		evil := "x"
		for _, row := range plaintext.Table() {
			evil += string(row.First) + string(row.Last) + "x"
		}
		evil += "\x1b[2J\n\x1b[8mno"
		o := held(1)
		o.Agents[0].ID, o.Agents[0].Doing = hub.AgentID(evil), evil
		o.Waiting.Messages[0] = message(1, evil)
		n := reading{now: o, messages: []hub.Envelope{message(2, evil)}}
		n.handoffs = []handoff.Report{{ShortID: "h1", From: hub.AgentID(evil), To: "builder", Title: evil, Status: hub.HandoffCompleted}}
		s := update(screen{url: evil, problem: evil, note: outcome{text: evil, failed: true}}, size, n, press("j"))
		for _, s := range []screen{s, update(s, tea.KeyPressMsg{Code: tea.KeyEnter})} {
			for line := range strings.SplitSeq(s.View().Content, "\n") {
				for _, r := range styles().ReplaceAllString(line, "") {
					if plaintext.Hidden(r) {
						t.Fatalf("%U is in %q", r, line)
					}
				}
			}
		}
	})

	t.Run("an answer is for the thing that the cursor was on", func(t *testing.T) {
		var answered []string
		s := screen{answer: func(_ api.Waiting, i attention.Item, yes bool) tea.Cmd {
			answered = append(answered, fmt.Sprint(i.ID, yes))
			return nil
		}}
		s = update(s, size, reading{now: held(1, 2)}, press("y"), reading{now: held(0, 1, 2)}, press("n"))
		// Another person answers it: the next y must not go to its neighbour.
		s = update(s, reading{now: held(0, 2)}, press("y"))
		if !s.note.failed {
			t.Error("a person who answers nothing is not told")
		}
		update(s, press("j"), press("y"))
		if got, want := strings.Join(answered, ", "), "m-1true, m-1false, m-0true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("the feed stays in its place while it is read", func(t *testing.T) {
		var many []hub.Envelope
		for n := range 100 {
			many = append(many, message(n, fmt.Sprintf("text %d.", n)))
		}
		s := update(screen{}, size, reading{messages: many}, tea.KeyPressMsg{Code: tea.KeyPgUp})
		before := s.View().Content
		s = update(s, reading{messages: many[:3]})
		if a, b := strings.Count(before, "text 89."), strings.Count(s.View().Content, "text 89."); a != 1 || b != 1 {
			t.Errorf("the last line was there %d times before and %d times after", a, b)
		}
	})
}

// BenchmarkScreen is the cost of a fifth of a second at 100 messages a second: one
// update with 20 messages, and the drawing of a large terminal.
func BenchmarkScreen(b *testing.B) {
	s := update(screen{}, tea.WindowSizeMsg{Width: 200, Height: 60}, reading{now: held(1, 2, 3)})
	var some []hub.Envelope
	for n := range 20 {
		some = append(some, message(n, strings.Repeat("text ", 40)))
	}
	for b.Loop() {
		s = update(s, reading{messages: some})
		s.View()
	}
}
