package main

import (
	"slices"
	"testing"
)

// TestNewThread has the user of a Codex window begin another thread with /new, and mail
// wake that one alone, before its first prompt and after it.
func TestNewThread(t *testing.T) {
	onlyReal(t)
	d := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == "codex" })].open(t, quickWakes)
	d.await("an armed session", d.idle)
	d.types("hello")
	d.await("a turn", func() bool { return len(d.exchanges()) > 0 && d.idle() })
	old := d.sessions()[0].Session

	d.types("/new")
	d.await("the new thread", func() bool { return d.idle() && d.sessions()[0].Session != old })
	d.mail("before the first prompt")
	d.await("a turn", func() bool { return len(d.wakes()) == 1 && d.idle() })
	if got := d.sessions()[0].Session; got == old {
		t.Errorf("the thread %s was left, and is armed", old)
	}
	contains(t, d.screen(), d.wakes()[0]) // the person sees the turn
}
