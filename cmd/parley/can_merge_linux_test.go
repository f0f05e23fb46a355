package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// newContractBench returns a bench whose repository provides the contract User, the name of the
// repository in its project, and the project.
func newContractBench(t *testing.T) (b *bench, api, project string) {
	t.Helper()
	b = newBench(t, "--aid", "aid://team.example/hub@1.0.0")
	b.add("--required")
	api = filepath.Base(b.repo)
	var made struct{ ProjectID string }
	b.ok(b.operator("project", "create", "Users", "--objective", "one user", "--repo", api+":backend:go", "--repo", "web:frontend:ts", "--json"), &made)
	b.ok(b.as("builder", "project", "join", "--repo", api), nil)
	b.ok(b.as("tester", "project", "join", "--repo", "web"), nil)
	b.ok(b.as("builder", "contract", "propose", "--type", "data_model", "--name", "User", "--content", userOne, "--provider", api), nil)
	b.ok(b.as("tester", "contract", "respond", "User", "agree"), nil)
	return b, api, made.ProjectID
}

func TestCanMergeRunsMissingTests(t *testing.T) {
	t.Parallel()
	b, api, project := newContractBench(t)

	// results returns the runs of the test on a commit.
	results := func(commit string) []string {
		t.Helper()
		var got struct {
			Results []struct{ Commit, State string }
		}
		b.ok(b.operator("check", "results", "--json"), &got)
		var states []string
		for _, r := range got.Results {
			if r.Commit == commit {
				states = append(states, r.State)
			}
		}
		return states
	}
	good := b.git("rev-parse", "HEAD")
	ask := func(commit string, more ...string) result {
		return b.as("builder", append([]string{"contract", "can-merge", "--repo", api, "--commit", commit, "--project", project, "--json"}, more...)...)
	}

	if r := ask(good); r.code != exitCheck || len(results(good)) != 0 {
		t.Errorf("without --wait: got %d %s, and results %v", r.code, r.out, results(good))
	}
	r := ask(good, "--wait", "5m")
	var answer struct {
		Answer string
		Asked  []struct{ What, Evidence string }
	}
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil || r.code != exitDone || len(answer.Asked) != 1 || answer.Asked[0].What != "User version 1" {
		t.Errorf("with --wait: got %d %s%s", r.code, r.out, r.err)
	}

	b.write("app.txt", "bad\n")
	bad := b.commit("second")
	b.operator("check", "run", "test", "--repo", b.repo, "--commit", bad, "--contract", "User@1", "--wait", "5m")
	if r := ask(bad, "--wait", "1s"); r.code != exitCheck || len(results(bad)) != 1 {
		t.Errorf("a test that failed: got %d %s, and results %v", r.code, r.out, results(bad))
	}
}

func TestContractTestsOfAFile(t *testing.T) {
	t.Parallel()
	b, api, project := newContractBench(t)
	file := func(text string) string {
		b.write("parley.yaml", text)
		return b.commit("checks")
	}
	file("checks: {contract-tests: {command: 'true'}}\ncontract_tests: {Users: contract-tests}\n")
	saysNo(t, b.operator("check", "trust", b.repo, "--yes", "--json"), exitMissing, "Users")
	file("checks: {contract-tests: {command: 'true'}}\ncontract_tests: {User: contract-test}\n")
	saysNo(t, b.operator("check", "trust", b.repo, "--yes", "--json"), exitUsage, "contract-test")

	commit := file("checks: {contract-tests: {command: 'true'}}\ncontract_tests: {User: contract-tests}\n")
	ask := func(more ...string) result {
		return b.as("builder", append([]string{"contract", "can-merge", "--repo", api, "--commit", commit, "--project", project}, more...)...)
	}
	contains(t, ask().out, "check run test")
	if r := b.operator("check", "trust", b.repo, "--yes"); r.code != exitDone || !strings.Contains(r.err, "the test of contract User: contract-tests") {
		t.Errorf("got %d %s%s", r.code, r.out, r.err)
	}
	contains(t, ask().out, "check run contract-tests")
	b.says(ask("--wait", "5m"), "yes", "User version 1: contract-tests passed")

	// Another name in the file replaces the test.
	commit = file("checks: {more-tests: {command: 'true'}}\ncontract_tests: {User: more-tests}\n")
	b.ok(b.operator("check", "trust", b.repo, "--yes"), nil)
	b.says(ask("--wait", "5m"), "User version 1: more-tests passed")
}
