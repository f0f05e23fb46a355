package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A narrator prints the words and actions of an agent as they come. On a terminal a
// tool call is one line, which is rewritten as the call proceeds and every second, with
// the time since the work began; between calls that line shows the state of the work.
// Elsewhere each change is a line of its own.
//
// Both streams share the cursor of the terminal. It stands in the rewritten line if
// open is set, else in the middle of a line of text if said or thought is set, else at
// the beginning of a line. Only there may a rewritten line begin.
type narrator struct {
	*app
	live  bool // standard error is a terminal, so that a line is rewritten
	began time.Time
	stop  func() // ends the clock and the last line

	mu      sync.Mutex        // guards what follows, and both streams
	titles  map[string]string // of tool calls
	printed map[string]bool   // messages of which something was
	said    bool              // the last text on standard output has no end of line
	message string            // id of the message that it belongs to
	acted   bool              // a tool call came after it, so that the next text is another message
	thought bool              // the last text on standard error has none
	open    bool              // there is a rewritten line
	call    string            // id of the tool call on it; empty if it shows the state
	action  string            // the text of that call
	state   string            // of the work; empty to show none
	usage   *acp.Usage        // the newest that the agent reported
}

// narrator returns a narrator. Its clock runs until stop is called.
func (a *app) narrator() *narrator {
	n := &narrator{app: a, titles: map[string]string{}, printed: map[string]bool{}, began: time.Now()}
	n.live = isTerminal(a.err) && os.Getenv("TERM") != "dumb"

	// The clock rewrites the last line each second.
	done := make(chan struct{})
	var clock sync.WaitGroup
	if n.live {
		clock.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					n.mu.Lock()
					n.rewrite()
					n.mu.Unlock()
				case <-done:
					return
				}
			}
		})
	}

	n.stop = sync.OnceFunc(func() {
		close(done)
		clock.Wait()
		n.print(func() {
			if n.said {
				fmt.Fprintln(n.out)
			}
		})
	})
	return n
}

// rewrite shows the current call, or the state of the work, in the rewritten line.
func (n *narrator) rewrite() {
	text := cmp.Or(n.action, n.state)
	if !n.live || text == "" {
		return
	}
	inText := !n.open && ((n.said && isTerminal(n.out)) || n.thought)
	if inText {
		return
	}
	elapsed := time.Since(n.began).Round(time.Second)
	line := []rune(fmt.Sprintf("%d:%02d %s", int(elapsed.Minutes()), int(elapsed.Seconds())%60, plaintext.Line(text)))
	width := columns(n.err)
	if width <= 1 {
		width = 80
	}
	fmt.Fprintf(n.err.raw, "\r\x1b[K%s", string(line[:min(len(line), width-1)])) // a line that wraps could not be rewritten
	n.open = true
}

// leave moves the cursor to the beginning of a line. The line of a call stays, that of
// the state does not.
func (n *narrator) leave() {
	switch {
	case n.open && n.call != "":
		fmt.Fprintln(n.err)
	case n.open:
		fmt.Fprint(n.err.raw, "\r\x1b[K")
	}
	if n.said && isTerminal(n.out) {
		fmt.Fprintln(n.out)
		n.said = false
	}
	if n.thought && n.live {
		fmt.Fprintln(n.err)
	}
	n.open = false
	n.call = ""
	n.action = ""
	n.thought = false
}

// print calls f, which writes whole lines, with the cursor at the beginning of one.
func (n *narrator) print(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leave()
	f()
}

// setState shows the state of the work between tool calls.
func (n *narrator) setState(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leave()
	n.state = state
	n.rewrite()
}

// asker returns a function that asks the person at the terminal while nothing else is
// printed.
func (n *narrator) asker() sandbox.Asker {
	ask := n.app.asker()
	return func(ctx context.Context, r sandbox.Request) (answer string, err error) {
		n.print(func() { answer, err = ask(ctx, r) })
		return answer, err
	}
}

// tell prints an update.
func (n *narrator) tell(u *acp.Update) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if kind := u.Kind(); !n.goesOn(kind) && (n.live || isTerminal(n.out)) {
		n.leave()
	}

	switch u.Kind() {
	case acp.KindAgentMessage:
		n.say(u)
	case acp.KindThought:
		text := u.Text()
		n.thought = !strings.HasSuffix(text, "\n")
		fmt.Fprint(n.err, n.paint(n.err, "2", text))
	case acp.KindToolCall:
		n.toolCall(u.ToolCall())
	case acp.KindPlan:
		for _, e := range u.Plan() {
			fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "36", "plan, "+e.Status+":"), e.Content)
		}
	case acp.KindNotice:
		fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "33", "notice:"), u.Text())
	case acp.KindUsage:
		n.usage = u.Usage()
	}
}

// goesOn reports whether an update of a kind prints nothing, or goes on with the line that
// was printed last.
func (n *narrator) goesOn(kind acp.UpdateKind) bool {
	switch kind {
	case acp.KindUsage:
		return true
	case acp.KindToolCall:
		return n.live
	case acp.KindAgentMessage:
		return n.said || !n.live
	case acp.KindThought:
		return n.thought && n.live
	}
	return false
}

// say prints a part of a message of the agent.
func (n *narrator) say(u *acp.Update) {
	id, whole := u.Message()
	if whole && n.printed[id] {
		return // the line on the terminal cannot be replaced
	}
	if len(n.printed) < 1000 {
		n.printed[id] = true
	}
	if n.said && (n.acted || id != n.message) {
		fmt.Fprintln(n.out) // a message begins on a line of its own
	}

	n.message = id
	n.acted = false
	if text := u.Text(); text != "" {
		n.said = !strings.HasSuffix(text, "\n")
		io.WriteString(n.out, text)
	}
}

// toolCall prints the state of a tool call and the changes that it made.
func (n *narrator) toolCall(call *acp.ToolCall) {
	n.acted = true
	if call.Title != "" && len(n.titles) < 1000 {
		n.titles[call.ID] = call.Title
	}
	title := cmp.Or(n.titles[call.ID], call.Kind, call.ID)
	switch {
	case call.Status == "":
	case n.live:
		if n.call != call.ID {
			n.leave()
		}
		n.call, n.action = call.ID, call.Status+": "+title
		n.rewrite()
		if call.Status == "completed" || call.Status == "failed" {
			n.leave()
		}
	default:
		fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "36", call.Status+":"), title)
	}
	if len(call.Diffs) > 0 && n.live {
		n.leave()
	}
	for _, d := range call.Diffs {
		n.diff(d)
	}
}

// maxDiff is how many lines of a change are printed.
const maxDiff = 20

// diff prints the lines between the common beginning and the common end of two texts.
func (n *narrator) diff(d acp.Diff) {
	old, now := strings.Split(d.Old, "\n"), strings.Split(d.New, "\n")
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	fmt.Fprintf(n.err, "  %s\n", d.Path)
	for _, part := range []struct {
		lines        []string
		sign, colour string
	}{{old, "-", "31"}, {now, "+", "32"}} {
		for i, line := range part.lines {
			if i == maxDiff {
				fmt.Fprintf(n.err, "  %s %d more lines\n", part.sign, len(part.lines)-i)
				break
			}
			fmt.Fprintf(n.err, "  %s\n", n.paint(n.err, part.colour, part.sign+" "+line))
		}
	}
}

// writeTokens prints the part of its context that an agent has used, and its cost, if
// the agent reported it.
func writeTokens(w io.Writer, u *run.Tokens) {
	if u == nil {
		return
	}
	fmt.Fprintf(w, "  tokens: %d of %d", u.Used, u.Size)
	if u.Cost != "" {
		fmt.Fprintf(w, ", %s %s", u.Cost, u.Currency)
	}
	fmt.Fprintln(w)
}
