package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunOfAReservedFile has the agent of a run write a file that another agent holds.
func TestRunOfAReservedFile(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := newRepository(t)
	h.ok(h.operator("hub", "folder", "add", dir), nil)
	h.ok(h.as("planner", "files", "reserve", "hello.txt", "--tree", dir), nil)

	r := h.runAs("careful", dir, "--policy", "write")
	got := outcome(t, r)
	if got.Report == nil || got.Report.Status != "fail" || got.Report.Error != "refused" {
		t.Errorf("exit %d, the agent reports %+v\n%s", r.code, got.Report, r.err)
	}
	if !strings.Contains(r.out, "hello.txt is being changed by planner") {
		t.Errorf("the person is not told by whom: %s", r.out)
	}
	if _, err := os.Stat(filepath.Join(dir, "hello.txt")); err == nil {
		t.Error("the file was written")
	}

	h.ok(h.as("planner", "files", "release", "hello.txt", "--tree", dir), nil)
	if r := h.runAs("careful", dir, "--policy", "write"); r.code != exitDone {
		t.Errorf("after the release: exit %d\n%s", r.code, r.err)
	}
}
