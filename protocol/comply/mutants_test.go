package comply_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/proof"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// asGoodAgent makes the test binary the good agent, or the mutant with that id.
const asGoodAgent = "COMPLY_TEST_GOOD_AGENT"

func serveGoodAgent(id string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := goodagent.Serve(ctx, goodagent.Find(id), os.Environ(), os.Stdin, os.Stdout, os.Stderr); err != nil && ctx.Err() == nil {
		return 1
	}
	return 0
}

// goodAgent returns the good agent, or a mutant of it: a function of this
// process unless it has to be one of its own.
func goodAgent(m *goodagent.Mutant) comply.Agent {
	if m != nil && m.Process {
		return goodProcess(m.ID())
	}
	return proof.Agent(m)
}

// goodProcess returns the good agent, or a mutant of it, as a process.
func goodProcess(id string) comply.Agent {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return comply.Agent{Name: id, Command: self, Env: map[string]string{asGoodAgent: id, "GORACE": "atexit_sleep_ms=0"}}
}

// proofTests returns the suite, and tests that show all sides of an agent, for the
// checks that every conversation passes.
func proofTests(t *testing.T) (suite, smoke []*comply.Test) {
	t.Helper()
	suite, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	if smoke, err = comply.Load("testdata/smoke"); err != nil {
		t.Fatal(err)
	}
	return suite, smoke
}

func TestGoodAgent(t *testing.T) {
	suite, smoke := proofTests(t)
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("breaks no rule of version %d", version), func(t *testing.T) {
			t.Parallel()
			got := run(t, goodAgent(nil), slices.Concat(suite, smoke), &comply.Options{Protocol: version, Jobs: 8, TimeoutScale: slow})
			for _, r := range got.Tests {
				if r.Status != comply.Pass && r.Status != comply.NA || len(r.Findings) > 0 {
					t.Errorf("%s: %s (%s) %+v", r.ID, r.Status, r.Reason, r.Findings)
				}
			}
			for rule, tests := range proof.Found(got) {
				t.Errorf("%s in %v", rule, tests)
			}
		})
	}
}

// TestGoodAgents shows that habits which break no rule are not held against an agent. The
// slow ones are as slow as on a machine that is ten times as fast. The race detector sees
// the first of them.
func TestGoodAgents(t *testing.T) {
	suite, _ := proofTests(t)
	suite = proof.Applicable(suite, 1)
	for i, c := range []struct {
		name  string
		agent comply.Agent
		tests string // the beginnings of the ids
		na    int    // how many tests say nothing about the good agent
		opts  comply.Options
	}{
		{"text in pieces of one byte", goodAgent(goodagent.Variant("chunks-1")), "prompt. session.load permission. fs. mcp.tool transport.text", 0, comply.Options{}},
		{"text in pieces of four bytes", goodAgent(goodagent.Variant("chunks-4")), "", 4, comply.Options{}},
		{"text in pieces of 4096 bytes", goodAgent(goodagent.Variant("chunks-4096")), "transport. prompt.text", 0, comply.Options{}},
		{"a session that takes 8 s", goodAgent(goodagent.Variant("session-800ms")), "required. session.new session.load prompt.text", 0, comply.Options{TimeoutScale: 0.1}},
		{"a start that takes 40 s", goodAgent(goodagent.Variant("start-4s")), "required. initialize.info session.load.restart transport.exit", 0, comply.Options{TimeoutScale: 0.1}},
		{"a login that is given", goodAgent(goodagent.Variant("login")), "required. auth. session. initialize.", 0, comply.Options{Auth: "token"}},
		{"an agent that is written differently", proof.Plain(), "required. initialize. rpc. transport. session.new prompt. permission. fs. tool. mcp. plan capabilities.", 12, comply.Options{}},
	} {
		if patience.Race && i > 0 {
			break
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tests := slices.DeleteFunc(slices.Clone(suite), func(x *comply.Test) bool {
				return c.tests != "" && !slices.ContainsFunc(strings.Fields(c.tests), func(begin string) bool { return strings.HasPrefix(x.ID, begin) })
			})
			c.opts.Jobs = 4
			if c.opts.TimeoutScale == 0 {
				c.opts.TimeoutScale = slow
			}
			report, err := comply.Run(t.Context(), []comply.Agent{c.agent}, tests, &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if report.Failed() {
				t.Errorf("the run failed: %v", report.Agents[0].Totals)
			}
			for _, what := range proof.Against(report.Agents[0]) {
				t.Error(what)
			}
			na := 0
			for _, r := range report.Agents[0].Tests {
				if r.Status == comply.NA {
					na++
				}
			}
			if na > c.na {
				t.Errorf("%d tests were not applicable, want at most %d", na, c.na)
			}
		})
	}
}

// TestHonestAgents shows that an agent which does not obey the prompts of the tests, or obeys
// them in English only, is not found guilty of anything: what it does not do is not applicable.
func TestHonestAgents(t *testing.T) {
	suite, _ := proofTests(t)
	for _, c := range []struct {
		name string // of the variant
		na   []int  // at most how many tests say nothing about the agent, for each version; none for any number
		form comply.Form
		only string // the one test that the variant is made for; all if it is empty
	}{
		{name: "echo"},
		{name: "refuse"},
		{name: "refusal"},
		{name: "toolless", form: comply.ByDirective},
		{name: "english", na: []int{9, 6}, form: comply.InEnglish}, // one more than on a quiet machine, where MCP servers start in time
		{name: "words", form: comply.InEnglish},
		{name: "careful"},
		{name: "wordless"},
		{name: "hasty", only: "prompt.parallel"}, // a turn that ends while it is cancelled would be another matter
	} {
		for version := 1; version <= 2; version++ {
			if patience.Race && c.name != "echo" {
				break
			}
			t.Run(fmt.Sprintf("%s in version %d", c.name, version), func(t *testing.T) {
				t.Parallel()
				report, err := comply.Run(t.Context(), []comply.Agent{goodAgent(goodagent.Variant(c.name))}, named(prompting(proof.Applicable(suite, version)), c.only), &comply.Options{Jobs: 8, TimeoutScale: slow, Protocol: version})
				if err != nil {
					t.Fatal(err)
				}
				a := report.Agents[0]
				if report.Failed() {
					t.Errorf("the run failed: %v", a.Totals)
				}
				for _, what := range proof.Against(a) {
					t.Error(what)
				}
				if c.na != nil && a.Totals[comply.NA] > c.na[version-1] {
					t.Errorf("%d tests were not applicable, want at most %d", a.Totals[comply.NA], c.na[version-1])
				}
				for _, r := range a.Tests {
					if c.na != nil && r.Status == comply.NA {
						t.Logf("%s: %s", r.ID, r.Reason)
					}
					if r.Obeyed != "" && r.Obeyed != c.form {
						t.Errorf("%s: the report says that the agent followed the %s, want %q", r.ID, r.Obeyed, c.form)
					}
				}
			})
		}
	}
}

// named returns the test with an id, or all if the id is empty.
func named(tests []*comply.Test, id string) []*comply.Test {
	return slices.DeleteFunc(tests, func(x *comply.Test) bool { return id != "" && x.ID != id })
}

// prompting returns the tests with prompts.
func prompting(tests []*comply.Test) (out []*comply.Test) {
	for _, x := range tests {
		if strings.Contains(string(x.Source()), "session/prompt") {
			out = append(out, x)
		}
	}
	return out
}

// promptTexts matches a text block of a prompt in a test.
var promptTexts = regexp.MustCompile(`"type": "text",\s*"text": ("(?:[^"\\]|\\.)*")`)

// TestPromptsInEnglish holds the prompts of the suite to their form: the request in English, which an
// agent can follow, before the directives, and no text in them that proves that an agent obeyed.
func TestPromptsInEnglish(t *testing.T) {
	suite, _ := proofTests(t)
	for _, x := range suite {
		for _, m := range promptTexts.FindAllStringSubmatch(string(x.Source()), -1) {
			var text string
			if err := json.Unmarshal([]byte(m[1]), &text); err != nil {
				t.Fatal(err)
			}
			english, directives, ok := strings.Cut(text, "parley:")
			if !ok {
				continue
			}
			if strings.TrimSpace(english) == "" || !strings.HasSuffix(english, "\n") {
				t.Errorf("%s: the prompt %q has no request in English before its directives", x.ID, text)
			}
			asked := strings.NewReplacer("${token.english}", `the two words "a" and "b" joined into one word`, "${token2.english}", "x", "${token3.english}", "x").Replace(english)
			if steps := goodagent.English(asked); steps[0].Text == "I do not understand." {
				t.Errorf("%s: the agent that understands English does not understand %q", x.ID, english)
			}
			for _, proof := range []string{"${token}", "${token2}", "${token3}", ".scripted}"} {
				if strings.Contains(text, proof) {
					t.Errorf("%s: the prompt %q contains %s, so that quoting it looks like obeying it", x.ID, text, proof)
				}
			}
			if strings.Contains(directives, "${secret}") || strings.Contains(directives, "${secret2}") {
				t.Errorf("%s: a directive contains the secret that it asks for: %q", x.ID, text)
			}
		}
	}
}

// TestLogin shows that an agent which needs a login is not wrong.
func TestLogin(t *testing.T) {
	t.Parallel()
	suite, _ := proofTests(t)
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			report, err := comply.Run(t.Context(), []comply.Agent{goodAgent(goodagent.Variant("login"))}, proof.Applicable(suite, version), &comply.Options{Jobs: 16, Protocol: version})
			if err != nil {
				t.Fatal(err)
			}
			if report.Failed() {
				t.Errorf("the run failed: %+v", report.Agents[0])
			}
			for _, r := range report.Agents[0].Tests {
				switch {
				case r.ID == "auth.unadvertised.v2": // it is for agents without a login
					wantStatus(t, r, comply.NA)
				case strings.HasPrefix(r.ID, "auth."):
					wantStatus(t, r, comply.Pass)
				case strings.HasPrefix(r.ID, "required.prompt.cancel"):
					if wantStatus(t, r, comply.NA); !strings.Contains(r.Reason, "needs a login: use --auth METHOD (the agent offers token") {
						t.Errorf("got the reason %s", r.Reason)
					}
				}
			}
		})
	}
}

// TestAgain shows that a finding which rests on time alone is tried again.
func TestAgain(t *testing.T) {
	t.Parallel()
	late := steps(prompt(2, "parley:say text=hello delay=1500"), `{"expect": {"timeoutMs": 1000, "messages": [{"response": {"id": 2}}]}}`)
	never := steps(prompt(2, "parley:hang"), `{"expect": {"timeoutMs": 300, "messages": [{"response": {"id": 2}}]}}`, `{"send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "${sessionId}"}}}`)
	for _, c := range []struct {
		name, text string
		once       bool
		want       comply.Status
	}{
		{"an agent that is slow is not wrong", late, false, comply.Pass},
		{"an agent that does not answer is", never, false, comply.Fail},
		{"a caller without patience gets no second run", never, true, comply.Fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			report, err := comply.Run(t.Context(), []comply.Agent{goodAgent(nil)}, suite(t, map[string]string{"case": c.text}), &comply.Options{Once: c.once})
			if err != nil {
				t.Fatal(err)
			}
			got := report.Agents[0].Tests[0]
			wantStatus(t, got, c.want)
			if c.want == comply.Fail && c.once == strings.Contains(got.Findings[0].Actual, "ran alone with 3 times the time") {
				t.Errorf("got %+v, want that it says whether it ran again", got.Findings)
			}
		})
	}
}

// TestMutants runs each mutant against the tests of its rule, the checks of every
// conversation and the smoke tests. The rule must be found to be broken, and
// nothing that does not follow from it. The race detector sees one mutant of each
// group; all of them would keep it busy for minutes.
func TestMutants(t *testing.T) {
	suite, smoke := proofTests(t)
	group := ""
	for _, m := range goodagent.Mutants() {
		before := group
		if group, _, _ = strings.Cut(m.Rule, "-"); patience.Race && group == before {
			continue
		}
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			got, err := proof.Try(t.Context(), m, goodAgent(m), slices.Concat(proof.About(suite, m.Rule), smoke), &comply.Options{Jobs: 4, Once: true})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Gate {
				t.Errorf("an agent that %s does not get the exit code that it should", m.Does)
			}
			if !got.Caught {
				t.Errorf("an agent that %s was not caught; found: %v", m.Does, got.Found)
			}
			for _, rule := range got.Unrelated {
				t.Errorf("an agent that %s was also found to break %s in %v", m.Does, rule, got.Found[rule])
			}
		})
	}
}

func TestMutantsNameRules(t *testing.T) {
	for _, m := range goodagent.Mutants() {
		for _, rule := range m.Broken() {
			if !slices.ContainsFunc(comply.Rules(), func(r comply.Rule) bool { return r.ID == rule }) {
				t.Errorf("%s: there is no rule %s", m.ID(), rule)
			}
		}
		if goodagent.Find(m.ID()) != m {
			t.Errorf("two mutants are called %s", m.ID())
		}
		if m.Does == "" {
			t.Errorf("%s does not say what it does", m.ID())
		}
	}
}

// TestLedgerRules holds the ledger to what it claims.
func TestLedgerRules(t *testing.T) {
	claimed := rules.LedgerIDs()
	for _, r := range comply.Rules() {
		if r.Class == rules.ByFrame && !slices.Contains(claimed, r.ID) && rules.Unbreakable(r.ID) == "" {
			t.Errorf("%s: no check is about it: %s", r.ID, r.Text)
		}
	}
	proven := map[string]bool{}
	for _, m := range goodagent.Mutants() {
		proven[m.Rule] = true
	}
	var unproven []string
	for _, id := range claimed {
		if !proven[id] {
			unproven = append(unproven, id)
		}
	}
	if len(unproven) > 0 {
		t.Errorf("no mutant proves that these can be found: %s", strings.Join(unproven, " "))
	}
}
