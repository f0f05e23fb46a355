package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// TestGuardReal has a real CLI edit a file that another agent is changing, and a free one. make
// test-real runs it.
func TestGuardReal(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		t.Run(c.name, func(t *testing.T) { testGuardReal(t, c) })
	}
}

func testGuardReal(t *testing.T, c realCLI) {
	if c.name == "claude" {
		c.args = append(slices.Clone(c.args), "--permission-mode", "acceptEdits")
	}
	if c.name == "gemini" {
		c.args = append(slices.Clone(c.args), "--yolo")
	}
	d, start := c.prepare(t, quickWakes)
	w := &workshop{d.house, d.dir}
	w.repository()
	w.edit("planner", "a.txt")
	want, err := os.ReadFile(filepath.Join(d.dir, "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	script := c.obedient(t)
	script.Rules = append(script.Rules, model.Rule{
		When: model.Condition{Prompt: regexp.MustCompile(`write both files`)},
		Do: []model.Step{
			{Do: model.Write, Path: filepath.Join(d.dir, "a.txt"), Text: "overwritten\n"},
			{Do: model.Write, Path: filepath.Join(d.dir, "free.txt"), Text: "free\n"},
			{Do: model.Say, Text: "Done."},
		},
	})
	d.model.Config.Handler = model.New(script)

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.asleep {
		d.connect(start)
		d.show(append(append(start, c.name), c.args...))
	} else {
		d.show(append(append(start, self, c.name, "--as", d.agent, "--wake", "--"), c.args...))
	}
	d.types("write both files")
	d.await("the free file", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "free.txt"))
		return err == nil
	})

	// The model read the reason, and the file is as it was.
	if got, err := os.ReadFile(filepath.Join(d.dir, "a.txt")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file of planner is now %q, %v", got, err)
	}
	isTold := slices.ContainsFunc(d.exchanges(), func(x model.Exchange) bool { return bytes.Contains(x.Body, []byte("is being changed by planner")) })
	if !isTold {
		t.Error("the model did not read who holds the file")
	}
}
