package reservation_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A mutant is a change of the source that breaks a rule.
type mutant struct {
	rule string // as the mutant has it
	file string
	old  string // occurs once in the file
	new  string
}

var mutants = []mutant{
	{"the reservation of another agent allows an edit", "rules.go",
		"return r.State == hub.ReservationHeld && r.Holder != agent &&", "return false &&"},
	{"an orphan keeps agents from a file", "rules.go",
		"return r.State == hub.ReservationHeld && r.Holder != agent &&", "return r.Holder != agent &&"},
	{"a reservation outlives the session of its holder", "rules.go",
		"case life.Known && life.Over:", "case life.Known && life.Over && life.Busy:"},
	{"a reservation outlives an edit that never came", "rules.go",
		"now.Sub(r.Asked.Time) >= editWithin", "now.Sub(r.Asked.Time) >= 10*editWithin"},
	{"a reservation ends after a minute though its file was changed", "rules.go",
		"!r.Asked.IsZero() && !r.Changed && now.Sub", "!r.Active.IsZero() && now.Sub"},
	{"a reservation outlives any time of idleness", "rules.go",
		"return now.Sub(last.Time) >= idle", "return now.Sub(last.Time) >= 100*idle"},
	{"signs of life of a session do not renew its reservations", "rules.go",
		"last = life.Seen", "last = r.Since"},
	{"a file that is as its commit stays reserved", "rules.go",
		"if f.Clean && (isNews || !isForeign) {", "if f.Clean && r.Pattern {"},
	{"a reservation of a clean file ends before its edit", "rules.go",
		"case !r.Changed && (!o.holder || isPending):", "case r.Pattern:"},
	{"a file that another agent's command restores is free", "rules.go",
		"case o.other == \"\" && !isForeign:", "case !isForeign:"},
	{"changes of a holder that is gone are forgotten", "rules.go",
		"return ending{next: hub.ReservationOrphan, why: why}", "return over(why)"},
	{"the content of another agent is never unseen", "rules.go",
		"if own == nil || writer == nil {", "if own == nil || writer == nil || len(views) > 0 {"},
	{"unseen content is refused each time", "rules.go",
		" || own.Stale == digest {", " {"},
	{"content that the agent has read is refused", "rules.go",
		"own.Digest == digest || ", ""},

	{"a pattern keeps nobody from its files", "coverage.go",
		"return covering[r.Path]", "return covering[name]"},
	{"a read is not noted", "ask.go",
		"if seen, ok := x.seenOf(i); ok {\n\t\t\tdigest = seen", "if seen, ok := x.seenOf(i); ok || !ok {\n\t\t\tdigest = seen + \"?\""},
	{"an agent commits files of another one", "ask.go",
		"return b.deny(ReasonHeld, denied, commitText(denied, b.now))", "return nil"},
	{"a person is refused a commit", "ask.go",
		"denied := b.denials(x.names)\n\tif b.actor.IsOperator() {", "denied := b.denials(x.names)\n\tif b.actor.Paused {"},
	{"notes are not delivered", "ask.go",
		"if err := b.deliverNotes(); err != nil {", "if err := error(nil); err != nil {"},
	{"an agent whose command or edit ends did not change files", "commands.go",
		"case isNamed || isChanged:", "case false && (isNamed || isChanged):"},

	{"an edit that comes late reserves nothing", "board.go",
		"if !isOwn && !f.Clean {", "if !isOwn && !f.Clean && f.Digest == \"\" {"},
	{"an agent is not known as the writer of its edit", "board.go",
		"return b.see(b.actor.ID, name, f.Digest, true)\n}\n\n// see", "return b.see(b.actor.ID, name, f.Digest, false)\n}\n\n// see"},
	{"a later pattern keeps an agent from the file that it changes", "board.go",
		"b.all[best].Pattern && (!r.Pattern || isOwn)", "r.Holder != agent"},
	{"two agents have one pattern", "reserve.go",
		"next.State = hub.ReservationWaiting", "next.State = hub.ReservationHeld"},
	{"the agent that is next for a pattern never has it", "board.go",
		"if r.State != hub.ReservationWaiting {\n\t\t\tcontinue", "if r.State != hub.ReservationHeld {\n\t\t\tcontinue"},
	{"an agent that reads its own edit is not its writer any more", "board.go",
		"wrote = wrote || isOwnEdit", "wrote = wrote && !isOwnEdit"},
	{"an orphan is not mentioned", "board.go",
		"b.note(Note{Kind: NoteOrphan,", "_ = (Note{Kind: NoteOrphan,"},
	{"the end of a reservation by idleness is not mentioned", "board.go",
		"if end.why == whyIdle && r.Changed {", "if end.why == whyIdle && r.Pattern {"},
	{"agents that wait hear nothing when a reservation ends", "board.go",
		"return b.tellWaiting()\n}\n\n// holderOfSame", "return nil\n}\n\n// holderOfSame"},

	{"an agent that is refused does not wait", "waits.go",
		"b.waits = append(b.waits, w)\n", "return false, nil\n"},
	{"an agent that was told once that a file is free is not told again", "waits.go",
		"w.Told = hub.Time{}\n", ""},
	{"an agent that waits hears that a file is free while it is held", "waits.go",
		"isHeld || first[w.Path] {", "isHeld && first[w.Path] {"},
	{"an overlap is not mentioned", "waits.go",
		"b.note(Note{Kind: NoteOverlap,", "_ = (Note{Kind: NoteOverlap,"},
	{"the edit of a holder is held against the command of another agent", "shell.go",
		"isReported := v.Agent == r.Holder || ", "isReported := v.Agent == b.actor.ID || "},
	{"a command may write a file of another agent that its text names", "shell.go",
		"for _, w := range x.does.Writes {", "for _, w := range x.does.Writes[:0] {"},
}

// TestMutantsAreCurrent finds the text of each mutant in the source once.
func TestMutantsAreCurrent(t *testing.T) {
	for _, m := range mutants {
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(source, []byte(m.old)); n != 1 {
			t.Errorf("%s: the text of the mutant occurs %d times in %s, want once", m.rule, n, m.file)
		}
	}
}

var storyOf = regexp.MustCompile(`(?m)^\s*(?:model_test\.go:\d+: )?(.+)\n\s*after: (.+)$`)

// TestModelMutants compiles the package with each mutant and runs the model, which has to find a
// promise that does not hold. It runs with PARLEY_MODEL_MUTANTS=1, in make mutants.
func TestModelMutants(t *testing.T) {
	if os.Getenv("PARLEY_MODEL_MUTANTS") == "" {
		t.Skip("it compiles the package many times: set PARLEY_MODEL_MUTANTS=1")
	}
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			out, err := runMutant(t, m)
			found := storyOf.FindStringSubmatch(out)
			if err == nil || found == nil {
				t.Fatalf("the model does not find it: %v\n%s", err, out)
			}
			n := strings.Count(found[2], ", ") + 1
			t.Logf("%s, after %d steps: %s", found[1], n, found[2])
		})
	}
}

// runMutant runs the model on a mutant of the package.
func runMutant(t *testing.T, m mutant) (string, error) {
	t.Helper()
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), m.file)
	if err := os.WriteFile(changed, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		t.Fatal(err)
	}

	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", name, "-count", "1", "-run", "^TestModel$", ".")
	cmd.Env = append(os.Environ(), "PARLEY_MODEL_DEPTH=5")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
