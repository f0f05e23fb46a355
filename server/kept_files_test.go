package server_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/server"
)

// commonFile is a file of the working tree that lies above the folders of two kept agents, such
// as front/work.
func commonFile(dir string) string { return filepath.Join(filepath.Dir(filepath.Dir(dir)), "a.txt") }

// side returns which of the two agents works in a folder: front or back.
func side(dir string) string { return filepath.Base(filepath.Dir(dir)) }

// amend asks for permission to change the common file, changes it if it may, and reports that.
func amend(ctx context.Context, t *acp.AgentTurn) error {
	path := commonFile(t.Dir)
	call := acpv2.ToolCallUpdate{
		ToolCallID: "1", Title: acpv2.Set("write a.txt"), Kind: acpv2.Set(acpv2.ToolKindEdit),
		Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(path)}}),
	}
	options := []acpv2.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: acpv2.PermissionOptionKindAllowOnce}, {OptionID: "no", Name: "No", Kind: acpv2.PermissionOptionKindRejectOnce}}
	out, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
		Title: "write a.txt", Options: options, Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: call}}),
	})
	if err != nil {
		return err
	}
	call.Status = acpv2.Set(acpv2.ToolCallStatusFailed)
	answer := "refused"
	if out.Approves(options) {
		call.Status = acpv2.Set(acpv2.ToolCallStatusCompleted)
		answer = "written"
		err = os.WriteFile(path, []byte("of "+side(t.Dir)+"\n"), 0o600)
	}
	return errors.Join(err, os.WriteFile(answerFile(t.Dir), []byte(answer), 0o600), t.ToolCall(ctx, call), t.Say(ctx, "done"))
}

// answerFile is where a kept agent writes the answer that it got.
func answerFile(dir string) string { return beside(dir, "answer") }

// deposit writes a file of its folder through the client, and waits if it is told so.
func deposit(ctx context.Context, t *acp.AgentTurn) error {
	answer := "written"
	if err := t.Files().Write(ctx, filepath.Join(t.Dir, "b.txt"), "of "+side(t.Dir)+"\n"); err != nil {
		answer = err.Error()
	}
	err := errors.Join(os.WriteFile(answerFile(t.Dir), []byte(answer), 0o600), t.Say(ctx, "done"))
	if strings.Contains(t.Text(), "slowly") {
		awaitGo(ctx, t.Dir)
	}
	return err
}

// overwrite changes the common file without asking, and reports the change.
func overwrite(ctx context.Context, t *acp.AgentTurn) error {
	path := commonFile(t.Dir)
	return errors.Join(os.WriteFile(path, []byte("overwritten\n"), 0o600), t.ToolCall(ctx, acpv2.ToolCallUpdate{
		ToolCallID: "1", Title: acpv2.Set("write a.txt"), Kind: acpv2.Set(acpv2.ToolKindEdit), Status: acpv2.Set(acpv2.ToolCallStatusCompleted),
		Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(path)}}),
	}), t.Say(ctx, "done"))
}

// A keptPair is a hub with two kept agents in one working tree: builder in front/work and tester
// in back/work, and planner, which works in a terminal.
type keptPair struct {
	*wakeHub
	top         string // of the working tree
	front, back string
}

func startPair(t *testing.T) *keptPair {
	t.Helper()
	p := &keptPair{wakeHub: startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")}
	var err error
	if p.top, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	p.git("init", "-q", "-b", "main")
	mustCall(t, p.as(p.operator), api.AddRoot, api.RootParams{Path: p.top})
	keep := func(name hub.AgentID, folder string) string {
		dir := filepath.Join(p.top, folder, "work")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return p.keepSelf(name, func(k *api.KeepParams) { k.Dir = dir })
	}
	p.front = keep("builder", "front")
	p.back = keep("tester", "back")
	if err := os.WriteFile(filepath.Join(p.top, "a.txt"), []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.commit()
	return p
}

func (p *keptPair) git(args ...string) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", p.top, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// commit commits the common file.
func (p *keptPair) commit() {
	p.t.Helper()
	p.git("add", "a.txt")
	p.git("commit", "-q", "-m", "a.txt")
}

// prompt gives an agent words of the operator.
func (p *keptPair) prompt(name hub.AgentID, text string) {
	p.t.Helper()
	mustCall(p.t, p.as(p.operator), api.PromptAgent, api.PromptParams{Agent: name, Text: text})
}

// allowEdit answers the question of an agent with yes: the file is outside of its folder.
func (p *keptPair) allowEdit(name hub.AgentID) {
	p.t.Helper()
	p.until(string(name)+" asks", func() bool { return len(p.kept(name).Asks) > 0 }, func() any { return p.logOf(name) })
	mustCall(p.t, p.as(p.operator), api.AnswerAgent, api.AnswerParams{Agent: name, Question: p.kept(name).Asks[0].ID, Choice: "yes"})
}

func (p *keptPair) answer(dir string) string {
	raw, _ := os.ReadFile(answerFile(dir))
	return string(raw)
}

func (p *keptPair) common() string {
	raw, _ := os.ReadFile(filepath.Join(p.top, "a.txt"))
	return string(raw)
}

// ask asks about files as planner.
func (p *keptPair) ask(q reservation.Question) reservation.Answer {
	p.t.Helper()
	q.Tree = p.top
	return mustCall(p.t, p.as(p.keys["planner"]), api.AskFiles, q)
}

func TestKeptFiles(t *testing.T) {
	t.Parallel()
	const refusal = "a.txt is being changed by builder"
	t.Run("a file that one kept agent is changing is refused to another, which is told when it is free", func(t *testing.T) {
		t.Parallel()
		p := startPair(t)
		p.prompt("builder", "do amend")
		p.allowEdit("builder")
		p.turns("builder", p.front, 1)
		if got := p.answer(p.front); got != "written" {
			t.Fatalf("builder: %q", got)
		}

		// Nobody is asked about the second edit.
		p.prompt("tester", "do amend")
		p.turns("tester", p.back, 1)
		if got := p.answer(p.back); got != "refused" || p.common() != "of front\n" {
			t.Errorf("tester: %q; the file has %q", got, p.common())
		}
		if log := p.logOf("tester"); !strings.Contains(log, refusal) {
			t.Errorf("the log has %q", log)
		}

		p.commit()
		p.ask(reservation.Question{Paths: []string{}, Kind: reservation.Edit, Command: "true"}) // the hub looks at the files
		told := p.turns("tester", p.back, 2)[1]
		if !strings.Contains(told.Prompt, refusal) || !strings.Contains(told.Texts, "a.txt is free") {
			t.Errorf("the next prompt is %q, with the messages %q", told.Prompt, told.Texts)
		}
		p.prompt("tester", "do amend")
		p.allowEdit("tester")
		p.turns("tester", p.back, 3)
		if got := p.answer(p.back); got != "written" || p.common() != "of back\n" {
			t.Errorf("tester: %q; the file has %q", got, p.common())
		}
	})

	t.Run("a kept agent is refused the file of an agent in a terminal", func(t *testing.T) {
		t.Parallel()
		p := startPair(t)
		if a := p.ask(reservation.Question{Paths: []string{"front/work/b.txt"}, Kind: reservation.Edit}); a.Decision != reservation.Allow {
			t.Fatalf("got %+v", a)
		}
		p.prompt("builder", "do deposit")
		p.turns("builder", p.front, 1)
		if got := p.answer(p.front); !strings.Contains(got, "front/work/b.txt is being changed by planner") || exists(filepath.Join(p.front, "b.txt")) {
			t.Errorf("builder reads %q", got)
		}
	})

	t.Run("an edit without asking is a violation", func(t *testing.T) {
		t.Parallel()
		p := startPair(t)
		p.prompt("builder", "do amend")
		p.allowEdit("builder")
		p.turns("builder", p.front, 1)
		p.prompt("tester", "do overwrite")
		p.turns("tester", p.back, 1)
		const violation = "tester changed a.txt, which builder holds"
		if log := p.logOf("tester"); !strings.Contains(log, violation) {
			t.Errorf("the log has %q", log)
		}
		p.prompt("tester", "go on")
		if turns := p.turns("tester", p.back, 2); !strings.Contains(turns[1].Prompt, violation) {
			t.Errorf("the next prompt is %q", turns[1].Prompt)
		}

		// The holder hears of it with the next question, at the beginning of its turn.
		p.prompt("builder", "go on")
		p.turns("builder", p.front, 2)
		if log := p.logOf("builder"); !strings.Contains(log, violation) {
			t.Errorf("the log of the holder has %q", log)
		}
	})

	t.Run("an agent holds its files while its turn runs", func(t *testing.T) {
		t.Parallel()
		p := startPair(t)
		p.prompt("builder", "do deposit slowly")
		p.until("builder has written", func() bool { return p.answer(p.front) == "written" }, func() any { return p.kept("builder") })
		p.pass(time.Hour)
		if a := p.ask(reservation.Question{Paths: []string{"front/work/b.txt"}, Kind: reservation.Edit}); a.Decision != reservation.Deny || a.Denied[0].Holder != "builder" {
			t.Errorf("got %+v, want a denial", a)
		}
		if err := os.WriteFile(beside(p.front, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.turns("builder", p.front, 1)
	})
}
