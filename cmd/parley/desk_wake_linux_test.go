package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// quickWakes are settings under which one test needs no half minute between wakes.
const quickWakes = "wakes:\n  gap: 1s\n"

// TestWake has a real CLI in a terminal woken by mail, through parley launch. make
// test runs one CLI, make test-real all.
func TestWake(t *testing.T) {
	for _, c := range realCLIs {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "claude" && os.Getenv("PARLEY_REAL") == "" {
				t.Skip("make test-real runs it")
			}
			testWake(t, c)
		})
	}
}

func testWake(t *testing.T, c realCLI) {
	d := c.open(t, quickWakes)
	d.await("an armed session", d.idle)
	turns := 0
	// more waits for the turns of wakes and checks that between min and max came since
	// the last call. A turn that should not come would have begun before the session
	// was idle for a while.
	more := func(what string, least, most int) {
		t.Helper()
		d.await(what, func() bool { return len(d.wakes()) >= turns+least && d.idle() })
		quiet(d)
		if got := len(d.wakes()) - turns; got < least || got > most {
			t.Errorf("%s: %d turns, want %d to %d\n%s", what, got, least, most, strings.Join(d.summary(), "\n"))
		}
		turns = len(d.wakes())
	}
	d.mail("are you there?")
	more("one mail to an idle agent is one turn", 1, 1)

	d.draft("half a thought")
	d.mail("with a draft")
	more("mail beside a draft is one turn", 1, 1)
	if !strings.Contains(d.screen(), "half a thought") {
		t.Errorf("the draft is gone:\n%s", d.screen())
	}
	d.clear("half a thought")

	for i := range 10 {
		d.mail(fmt.Sprintf("burst %d", i))
		<-time.After(400 * time.Millisecond)
	}
	more("ten mails in five seconds are one or two turns", 1, 2)

	var over string // the file that a tool call leaves at its end
	tasks := 0
	busy := func() {
		t.Helper()
		tasks++
		over = filepath.Join(d.dir, fmt.Sprint("over", tasks))
		d.types(fmt.Sprintf(`parley:shell command="sleep 12; touch over%d"`, tasks))
		d.await("a turn of the user", func() bool { return !d.idle() })
	}
	finished := func() {
		t.Helper()
		d.await("the end of the tool call", func() bool { _, err := os.Stat(over); return err == nil })
		d.await("the end of the turn", d.idle)
	}
	busy()
	for i := range 5 {
		d.mail(fmt.Sprintf("busy %d", i))
	}
	finished()
	more("five mails to a busy agent are at most one turn", 0, 1)

	busy()
	d.mail("read it yourself")
	d.ok(d.as(d.agent, "inbox"), nil)
	finished()
	more("mail that was fetched before is no turn", 0, 0)

	busy()
	d.mail("before the end of the hub")
	d.hub.signal(t, syscall.SIGKILL)
	d.start(d.flags...)
	finished()
	d.await("the notice", func() bool { return d.told() })
	more("mail before the end of a hub is at most one turn after it", 0, 1)
}

// quiet waits while a turn that should not come would come: longer than the hub waits
// for a burst to end and than a CLI takes to begin a turn.
func quiet(d *desk) { <-time.After(5 * time.Second) }

// clear removes a draft.
func (d *desk) clear(text string) {
	for range len(text) {
		d.tmux("send-keys", "-t", "w", "BSpace")
	}
}

// told reports whether the last request of the CLI has a notice anywhere.
func (d *desk) told() bool {
	all := d.exchanges()
	return len(all) > 0 && wakeID.Match(all[len(all)-1].Body)
}
