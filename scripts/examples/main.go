// Command examples writes comply/rules/examples.json: for each rule that a mutant breaks, the
// frame that proves it and the frame of the good agent in the same place.
//
//	go run ./scripts/examples > comply/rules/examples.json
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/parley-agents/parley/comply"
	"github.com/parley-agents/parley/internal/goodagent"
	"github.com/parley-agents/parley/internal/proof"
)

// An example has a frame that breaks a rule and one that keeps it.
type example struct {
	Bad  string `json:"bad,omitempty"`
	Good string `json:"good,omitempty"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tests, err := comply.Suite()
	if err != nil {
		return err
	}
	smoke, err := comply.Load("comply/testdata/smoke")
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "examples-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.Chdir(scratch); err != nil { // some mutants write where the process was started
		return err
	}
	good := map[int]map[string][]comply.Frame{}
	for version := 1; version <= 2; version++ {
		frames := map[string][]comply.Frame{}
		good[version] = frames
		_, err := comply.Run(ctx, []comply.Agent{proof.Agent(nil)}, proof.Applicable(slices.Concat(tests, smoke), version), &comply.Options{
			Protocol: version, Jobs: 8, Once: true,
			Trace: func(_, test string, f comply.Frame) { frames[test] = append(frames[test], f) },
		})
		if err != nil {
			return err
		}
	}
	out := map[string]example{}
	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, 6)
	for _, m := range goodagent.Mutants() {
		if m.Process {
			continue // it breaks no frame
		}
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			version := 1
			if m.V2 {
				version = 2
			}
			report, err := comply.Run(ctx, []comply.Agent{proof.Agent(m)}, proof.Applicable(slices.Concat(proof.About(tests, m.Rule), smoke), version), &comply.Options{Protocol: version, Jobs: 2, Once: true})
			if err != nil {
				return // the rule stays without an example
			}
			mu.Lock()
			defer mu.Unlock()
			if _, ok := out[m.Rule]; ok && m.V2 {
				return
			}
			for test, f := range found(report.Agents[0], m.Rule) {
				bad := f.Frames[len(f.Frames)-1]
				if bad.Direction != "in" {
					continue
				}
				out[m.Rule] = example{Bad: short(bad.Text), Good: short(twin(f, bad, good[version][test]))}
				return
			}
		})
	}
	work.Wait()
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}

// workspace matches the folder of a test.
var workspace = regexp.MustCompile(`/[^" ]*/comply-[0-9]+`)

// short returns the beginning of a frame, without the folders of this machine.
func short(frame string) string {
	frame = workspace.ReplaceAllString(frame, "/work")
	if len(frame) > 420 {
		frame = strings.ToValidUTF8(frame[:400], "") + " [...]"
	}
	return frame
}

// found iterates over the findings of a rule that have frames, with their tests.
func found(a comply.AgentReport, rule string) func(func(string, comply.Finding) bool) {
	return func(yield func(string, comply.Finding) bool) {
		for _, r := range a.Tests {
			for _, f := range r.Findings {
				if f.Rule == rule && len(f.Frames) > 0 && !yield(r.ID, f) {
					return
				}
			}
		}
		for _, f := range a.Ledger {
			if f.Rule == rule && len(f.Frames) > 0 && !yield(f.Test, f) {
				return
			}
		}
	}
}

// A message has the members that tell frames apart.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Update struct {
			Tag    string `json:"sessionUpdate"`
			Status string `json:"status"`
		} `json:"update"`
	} `json:"params"`
}

func read(f comply.Frame) (m message) {
	json.Unmarshal([]byte(f.Text), &m) // what is no JSON is like nothing
	return m
}

// twin returns the first frame of the good agent that is of the kind of the bad one, "" if there is none.
func twin(f comply.Finding, bad comply.Frame, frames []comply.Frame) string {
	is := read(bad)
	asked := "" // the method that a response answers
	for _, other := range f.Frames {
		if o := read(other); is.Method == "" && o.Method != "" && string(o.ID) == string(is.ID) {
			asked = o.Method
		}
	}
	methods := map[string]string{}
	for _, g := range frames {
		m := read(g)
		if g.Direction == "out" {
			methods[string(m.ID)] = m.Method
			continue
		}
		switch {
		case is.Method != "" && m.Method == is.Method && m.Params.Update.Tag == is.Params.Update.Tag && m.Params.Update.Status == is.Params.Update.Status:
			return g.Text
		case is.Method == "" && m.Method == "" && asked != "" && methods[string(m.ID)] == asked && (asked != "session/prompt" || string(m.ID) == string(is.ID)):
			return g.Text
		case is.Method == "" && m.Method == "" && asked == "" && string(m.ID) == string(is.ID):
			return g.Text
		}
	}
	return ""
}
