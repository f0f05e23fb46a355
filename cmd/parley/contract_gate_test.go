package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
)

// The versions of a contract: the second has more, the third takes a property away.
const (
	userOne   = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name","avatar"],"properties":{"name":{"type":"string"},"avatar":{"type":"string"}}}`
	userTwo   = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name","avatar","mail"],"properties":{"name":{"type":"string"},"avatar":{"type":"string"},"mail":{"type":"string"}}}`
	userThree = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name","mail"],"properties":{"name":{"type":"string"},"mail":{"type":"string"}}}`
)

func TestContractGate(t *testing.T) {
	t.Parallel()
	notices := filepath.Join(t.TempDir(), "notices")
	config := fmt.Sprintf("notify:\n- {name: desk, command: [tee, -a, %q], events: [contract.breaking, contract.unknown, contract.deprecated, can_merge.changed], batch: 1ms}\n", notices)
	h := newHouse(t, "--aid", "aid://team.example/hub@1.0.0", "--unsafe-limits", "--config", write(t, "config.yaml", config))
	announced := func(want string) {
		t.Helper()
		poll(t, want, func() bool {
			text, _ := os.ReadFile(notices) // it is not there before the first notice
			return strings.Contains(string(text), want)
		})
	}
	var made struct{ ProjectID string }
	h.ok(h.operator("project", "create", "Users", "--objective", "one user", "--repo", "api:backend:go", "--repo", "web:frontend:ts", "--repo", "app:mobile:ts", "--json"), &made)
	for name, agent := range map[string]string{"api": "builder", "web": "tester", "app": "planner"} {
		h.keys[name] = h.keys[agent]
		h.ok(h.as(name, "project", "join", "--repo", name), nil)
	}
	for _, repo := range []string{"api", "web"} {
		var token struct{ Token string }
		h.ok(h.operator("project", "token", "--agent", "aid://ci.example/ci@1.0.0", "--permissions", "project:read,evidence,deploy", "--repo", repo, "--check", "contract-tests", "--branch", "main", "--json"), &token)
		h.keys["ci of "+repo] = token.Token
	}
	h.keys["ci"] = h.keys["ci of api"]
	saysNo(t, h.operator("project", "token", "--agent", "aid://ci.example/ci@1.0.0", "--permissions", "project:evidence", "--json"), exitUsage, "must be bound")
	h.ok(h.operator("contract", "env", "add", "prod"), nil)
	file := func(name, text string) string {
		path := filepath.Join(h.home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	three := "@" + file("three.json", userThree)

	t.Run("a contract has a provider and consumers with their parts", func(t *testing.T) {
		h.says(h.as("api", "contract", "propose", "--type", "data_model", "--name", "User", "--content", userOne, "--provider", "api", "--direction", "response", "--json"), `"format":"json-schema"`, `"provider":"api"`)
		h.says(h.as("web", "contract", "respond", "User", "agree"), "version 1 is agreed")
		h.says(h.as("web", "contract", "use", "User", "--repo", "web", "--part", "User.avatar", "--from", "uses.yaml"), "web uses User: User.avatar")
		h.says(h.as("app", "contract", "use", "User", "--part", "User.name", "--json"), `"use":{"contract":"User"`, `"repository":"app","parts":["User.name"]`, `"declared_at":`)
		h.says(h.operator("contract", "show", "User"), "provided by api", "version 1 is in force", "used by web: User.avatar")
		h.says(h.operator("contract", "show", "User", "--json"), `"in_force":{"version":1`, `"provider":"api"`)
	})
	t.Run("a compatible update is agreed at once", func(t *testing.T) {
		h.says(h.as("api", "contract", "update", "User", "--content", userTwo, "--json"), `"status":"agreed"`, `"verdict":"compatible"`)
	})
	t.Run("a question before the change names who breaks, with an example", func(t *testing.T) {
		h.says(h.as("api", "contract", "impact", "User", "--content", three), "web: breaking (uses User.avatar, declared in uses.yaml)", "app: compatible", "RES-property-removed")
		r := h.as("api", "contract", "diff", "User", "--content", three, "--exit-code", "--json")
		if r.code != exitCheck {
			t.Errorf("got exit code %d: %s", r.code, r.out)
		}
		contains(t, r.out, `"taken_by":"new","refused_by":"old"`)
		contains(t, r.out, `"consumers":[{"repository":"app","verdict":"compatible"`)
		h.says(h.as("api", "contract", "diff", "User"), "version 1 to version 2", "for web: compatible")
	})
	t.Run("the policy forbids a breaking update", func(t *testing.T) {
		h.says(h.operator("contract", "policy", "--breaking", "forbid", "--json"), `"policy":{"breaking":"forbid"}`)
		refused(t, h.as("api", "contract", "update", "User", "--content", three, "--json"), exitRefused, string(hub.CodePolicy))
		refused(t, h.operator("contract", "policy", "--breaking", "sunset", "--date", "2001-01-01", "--json"), exitUsage, string(hub.CodeInvalid))
		saysNo(t, h.operator("contract", "policy", "--breaking", ""), exitUsage, "--breaking needs a policy")
		h.says(h.operator("contract", "policy", "--breaking", "ask"), "ask")
	})
	t.Run("a breaking update waits for the affected consumer alone", func(t *testing.T) {
		h.says(h.as("api", "contract", "update", "User", "--content", three), "version 3 is proposed", "breaking compared with version 2 for web", "still to agree: web")
		h.says(h.operator("contract", "impact", "User"), "web: breaking")
		h.says(h.as("web", "inbox", "--json"), "is breaking for web, and your agreement is asked: parley contract respond", "--repo web --version 3", `"parts":["/properties/avatar","User.avatar","avatar"]`, `"example":`, `"priority":"high"`)
		h.says(h.as("app", "inbox", "--json"), "you are not affected")
	})
	t.Run("can-merge answers from results that were run", func(t *testing.T) {
		ask := func(repo, commit string, code int, parts ...string) {
			t.Helper()
			r := h.as("ci", "contract", "can-merge", "--repo", repo, "--commit", full(commit), "--project", made.ProjectID)
			if r.code != code {
				t.Errorf("got exit code %d, want %d: %s%s", r.code, code, r.out, r.err)
			}
			for _, part := range parts {
				contains(t, r.out, part)
			}
		}
		ask("web", "b1", exitCheck, "no check of web is its test", "operator: name one: parley contract test")
		saysNo(t, h.operator("contract", "test", "User", "--repo", "web", "--check", "contract-test", "--json"), exitUsage, "its checks are contract-tests")
		for _, repo := range []string{"api", "web"} {
			h.says(h.operator("contract", "test", "User", "--repo", repo, "--check", "contract-tests"), "contract-tests is the test of User in "+repo)
		}
		ask("nowhere", "b1", exitUsage)
		ask("web", "b1", exitCheck, "no test was run on this commit", "web: run its test in CI")
		h.says(h.as("web", "contract", "verify", "User", "--result", "success", "--commit", full("b1"), "--json"), `"kind":"said"`, `"commit":"`+full("b1"))
		ask("web", "b1", exitCheck, "said, not run")
		junit := file("junit.xml", `<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite></testsuites>`)
		h.says(h.as("ci of web", "contract", "verify", "User", "--repo", "web", "--commit", full("b1"), "--check", "contract-tests", "--junit", junit, "--project", made.ProjectID, "--json"), `"kind":"run","result":"failure"`)
		ask("web", "b1", exitCheck, "ended with failure")
		h.says(h.as("ci of web", "contract", "verify", "User", "--repo", "web", "--commit", full("b1"), "--check", "contract-tests", "--result", "success", "--project", made.ProjectID), "success at commit b1", "against version 2 (run)")
		ask("web", "b1", exitDone, "yes (1 contract checked)")
		h.says(h.as("ci", "contract", "verify", "User", "--repo", "api", "--commit", full("a3"), "--check", "contract-tests", "--result", "success", "--version", "3", "--project", made.ProjectID), "against version 3")
		ask("api", "a3", exitCheck, "version 3, which is not agreed yet: waiting for web")
		h.says(h.as("web", "contract", "respond", "User", "agree"), "version 3 is agreed")
		ask("api", "a3", exitCheck, "version 3 is breaking for web, which has no run result for it")
		h.says(h.as("ci of web", "contract", "verify", "User", "--repo", "web", "--commit", full("b2"), "--check", "contract-tests", "--result", "success", "--project", made.ProjectID), "version 3")
		ask("api", "a3", exitDone, "yes")
	})
	t.Run("can-deploy compares with what runs in the environment", func(t *testing.T) {
		ask := func(repo, commit string, code int, part string) {
			t.Helper()
			r := h.as("ci", "contract", "can-deploy", "--repo", repo, "--commit", full(commit), "--env", "prod", "--project", made.ProjectID, "--json")
			if r.code != code {
				t.Errorf("got exit code %d, want %d: %s%s", r.code, code, r.out, r.err)
			}
			contains(t, r.out, part)
		}
		saysNo(t, h.as("ci", "contract", "can-deploy", "--repo", "api", "--commit", full("a3"), "--env", "prdo", "--project", made.ProjectID, "--json"), exitUsage, "its environments are prod")
		h.ok(h.operator("contract", "env", "add", "lab"), nil)
		h.says(h.operator("contract", "deployed", "app", "--env", "lab", "--commit", full("c1")), "app runs commit c1")
		saysNo(t, h.as("api", "contract", "deployed", "api", "--env", "prod", "--commit", full("a3"), "--json"), exitRefused, "only the operator and tokens")
		h.says(h.as("ci", "contract", "deployed", "web", "--env", "prod", "--commit", full("b1"), "--project", made.ProjectID, "--json"), `"deployment":{"repository":"web","env":"prod","commit":"`+full("b1"))
		ask("api", "a3", exitCheck, "breaking for commit "+full("b1")[:12]+" of web")
		h.says(h.as("ci", "contract", "deployed", "web", "--env", "prod", "--commit", full("b2"), "--project", made.ProjectID), "web runs commit b2", "in prod (as CI says: this hub does not have the commit)")
		ask("api", "a3", exitDone, `"answer":"yes"`)
	})
	t.Run("the matrix shows versions, commits and verdicts", func(t *testing.T) {
		h.says(h.operator("contract", "matrix"), "User", "3 of 3", "b2", "success (run)")
		h.says(h.operator("contract", "matrix", "--env", "prod", "--json"), `"rows":[{"repository":"web"`, `"commit":"`+full("b2")+`","kind":"run"`)
		h.says(h.operator("contract", "matrix", "--html"), "<table>", "compatible")
	})
	t.Run("answers are also written as JUnit", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "answer.xml")
		written := func(r result, code int, parts ...string) {
			t.Helper()
			text, err := os.ReadFile(path)
			if err != nil || r.code != code {
				t.Fatalf("got exit code %d, want %d: %v %s", r.code, code, err, r.err)
			}
			contains(t, string(text), parts...)
		}
		in := []string{"--project", made.ProjectID, "--junit", path}
		written(h.as("ci", append(in, "contract", "can-merge", "--repo", "api", "--commit", full("0"))...), exitCheck, `<testsuite name="parley can-merge" tests="1" failures="1">`, `<failure message="no test was run on this commit">`)
		written(h.as("ci", append(in, "contract", "can-merge", "--repo", "api", "--commit", full("a3"))...), exitDone, `failures="0"`, `name="api"`)
		written(h.as("ci", append(in, "contract", "diff", "User", "--exit-code")...), exitCheck, `<testcase classname="parley contract diff" name="web">`, "RES-property-removed")
		written(h.as("ci", append(in, "contract", "check", "--repo", "api")...), exitDone, `<testsuite name="parley contract check" tests="1" failures="0">`)
	})
	t.Run("the parts for CI send results, ask about a deployment and record one", func(t *testing.T) {
		report := file("report.xml", `<testsuite><testcase name="a"/></testsuite>`)
		run := func(who, script, commit string, want int, env ...string) {
			t.Helper()
			dir := t.TempDir()
			env = append(env, "PARLEY_PROJECT="+made.ProjectID, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+filepath.Join(dir, "output"),
				"REPOSITORY=web", "PARLEY_REPOSITORY=web", "COMMIT="+full(commit), "CI_COMMIT_SHA="+full(commit), "WAIT=0s", "PARLEY_WAIT=0s", "PARLEY_ENVIRONMENT=prod")
			if code, out := h.shell(dir, who, script, env...); code != want {
				t.Errorf("%s with %v: got exit code %d, want %d: %s", commit, env, code, want, out)
			}
		}
		sent := []string{"REPORT=" + report, "CHECK=contract-tests", "CONTRACTS=User\n", "PARLEY_REPORT=" + report, "PARLEY_CHECK=contract-tests", "PARLEY_CONTRACTS=User\n"}
		for commit, script := range map[string]string{"b7": githubScript(t), "b8": gitlabScript(t, "contracts")} {
			run("ci of web", script, commit, exitCheck)
			run("ci of web", script, commit, exitDone, sent...)
			run("ci of api", script, commit, exitRefused, sent...) // it is bound to the other repository
		}
		h.ok(h.as("ci", "contract", "deployed", "api", "--env", "prod", "--commit", full("a3"), "--project", made.ProjectID), nil)
		run("ci", githubScript(t), "b7", exitDone, "DEPLOY_TO=prod")
		run("ci", gitlabScript(t, ".contracts-can-deploy"), "b8", exitDone)
		run("ci", githubScript(t), "b7", exitDone, "DEPLOYED_TO=prod")
		run("ci", gitlabScript(t, ".contracts-deployed"), "b2", exitDone)
	})
	t.Run("the parts for CI ask the same", func(t *testing.T) {
		for _, script := range []string{githubScript(t), gitlabScript(t, "contracts")} {
			for commit, want := range map[string]int{full("0"): exitCheck, full("a3"): exitDone} {
				dir := t.TempDir()
				code, out := h.shell(dir, "ci", script, "PARLEY_PROJECT="+made.ProjectID, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+filepath.Join(dir, "output"),
					"REPOSITORY=api", "PARLEY_REPOSITORY=api", "COMMIT="+commit, "CI_COMMIT_SHA="+commit, "WAIT=0s", "PARLEY_WAIT=0s")
				if code != want {
					t.Errorf("got exit code %d for %s, want %d: %s", code, commit, want, out)
				}
				if _, err := os.Stat(filepath.Join(dir, "parley-contracts.xml")); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Run("a part is deprecated and withdrawn", func(t *testing.T) {
		saysNo(t, h.as("api", "contract", "deprecate", "User", "--part", "User.none", "--until", "2999-12-31", "--json"), exitMissing, "has no part")
		h.says(h.as("api", "contract", "deprecate", "User", "--part", "User.name", "--until", "2999-12-31"), "User.name ends after 2999-12-31", "still used by app")
		announced("contract.deprecated: a part of a contract ends on 2999-12-31; still used by app: User (")
		h.says(h.as("api", "contract", "impact", "User"), "User.name ends after 2999-12-31: still used by app")
		h.says(h.as("api", "contract", "impact", "User", "--json"), `"ending":[{"part":"User.name","until":"2999-12-31","still_used_by":["app"]}]`)
		h.says(h.as("api", "contract", "matrix"), "; User.name ends after 2999-12-31")
		h.says(h.as("api", "contract", "matrix", "--json"), `"ending":["User.name ends after 2999-12-31"]`)
		refused(t, h.as("api", "contract", "withdraw", "User", "--part", "User.name", "--json"), exitMissing, string(hub.CodeConflict))
		h.says(h.as("app", "contract", "use", "User", "--remove"), "app does not use User any more")
		h.says(h.as("api", "contract", "withdraw", "User", "--part", "User.name", "--json"), `"withdrawn":[{"part":"User.name"`, `"still_used_by":[]`)
	})
	t.Run("people are told of breaking and unknown versions, of ends and of answers that changed", func(t *testing.T) {
		h.ok(h.as("api", "contract", "propose", "--type", "custom", "--name", "Rules", "--content", `{"text":"be kind"}`, "--provider", "api", "--format", "custom"), nil)
		h.ok(h.as("web", "contract", "respond", "Rules", "agree"), nil)
		h.ok(h.as("web", "contract", "use", "Rules"), nil)
		h.ok(h.as("api", "contract", "update", "Rules", "--content", `{"text":"be brief"}`), nil)
		for _, want := range []string{
			"contract.breaking: version 3 of a contract is breaking for web: User (parley contract diff ",
			"can_merge.changed: commit " + full("a3")[:12] + " of api can merge now (parley contract can-merge --project " + made.ProjectID + " --repo api --commit " + full("a3") + ")",
			"contract.deprecated: a part of a contract was withdrawn: User (",
			"contract.unknown: version 2 of a contract is unknown for web: Rules (",
		} {
			announced(want)
		}
	})
	t.Run("the journal has it all, and it is whole", func(t *testing.T) {
		h.says(h.operator("hub", "journal", "--action", "contract.used"), "contract.used")
		h.says(h.operator("hub", "journal", "--action", "contract.result"), "contract.result")
		h.says(h.operator("hub", "journal", "--action", "repo.deployed"), "repo.deployed")
		h.ok(h.operator("hub", "verify"), nil)
	})
}

// saysNo checks the exit code of a refusal, and what it says.
func saysNo(t *testing.T, r result, code int, text string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d: %s%s", r.code, code, r.out, r.err)
	}
	contains(t, r.err, text)
}

// full returns a full commit id that begins with a text.
func full(short string) string { return short + strings.Repeat("0", 40-len(short)) }

// githubScript returns the last step of the GitHub Action.
func githubScript(t *testing.T) string {
	t.Helper()
	var action struct {
		Runs struct {
			Using string
			Steps []struct{ Run string }
		}
	}
	readYAML(t, "../../contrib/github-contracts/action.yml", &action)
	if action.Runs.Using != "composite" || len(action.Runs.Steps) == 0 {
		t.Fatalf("got %+v", action)
	}
	return "set -eo pipefail\n" + action.Runs.Steps[len(action.Runs.Steps)-1].Run
}

// gitlabScript returns the script of a job of the GitLab template.
func gitlabScript(t *testing.T, job string) string {
	t.Helper()
	var template map[string]struct{ Script []string }
	readYAML(t, "../../contrib/gitlab/contracts.yml", &template)
	return "set -eo pipefail\n" + strings.Join(template[job].Script, "\n")
}

// readYAML reads a file of CI.
func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shell runs a script of bash in a folder as a persona, with parley on its PATH.
func (h *house) shell(dir, who, script string, env ...string) (code int, out string) {
	h.t.Helper()
	like := parley(h.t, h.env(who))
	if err := os.Symlink(like.Path, filepath.Join(dir, "parley")); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(like.Env, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	text, _ := cmd.CombinedOutput() // the exit code is returned
	return cmd.ProcessState.ExitCode(), string(text)
}
