package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entryOf returns a member of a price file: a model that costs some dollars for a million tokens of
// input, and ten times as much for output.
func entryOf(name, vendor string, dollars float64, more string) string {
	return fmt.Sprintf(`%q: {"litellm_provider": %q, "mode": "chat", "input_cost_per_token": %g, "output_cost_per_token": %g%s}`, name, vendor, dollars/1e6, dollars/1e5, more)
}

// someFile returns a price file with a model of each vendor, and more members.
func someFile(more ...string) []byte {
	for _, vendor := range vendors {
		more = append(more, entryOf(vendor+"/"+vendor+"-large", vendor, 2, ""))
	}
	return []byte("{" + strings.Join(more, ",") + "}")
}

func TestList(t *testing.T) {
	raw, err := listOf(someFile(
		`"sample_spec": {"input_cost_per_token": "a number", "mode": "one of"}`,
		entryOf("claude-x", "anthropic", 3, `, "cache_read_input_token_cost": 3e-7, "cache_creation_input_token_cost": 3.75e-6`),
		entryOf("claude-x-20260101", "anthropic", 3, `, "cache_read_input_token_cost": 3e-7, "cache_creation_input_token_cost": 3.75e-6`),
		entryOf("gpt-x", "openai", 1, ""),
		entryOf("gpt-x-2026-01-01", "openai", 1.5, ""),
		entryOf("gpt-old", "openai", 1, `, "deprecation_date": "2026-10-01"`),
		entryOf("gpt-old-and-dear", "openai", 90, `, "deprecation_date": "2026-10-01"`),
		entryOf("gpt-soon-old", "openai", 2, `, "deprecation_date": "2026-12-01"`),
		entryOf("gpt-x-audio", "openai", 1, ""),
		entryOf("gpt-free", "openai", 0, ""),
		entryOf("elsewhere/gpt-x", "elsewhere", 70, ""),
		`"dashscope/qwen-x": {"litellm_provider": "dashscope", "mode": "chat", "tiered_pricing": [{"input_cost_per_token": 1e-6, "output_cost_per_token": 5e-6}, {"input_cost_per_token": 6e-6, "output_cost_per_token": 6e-5}]}`,
	), "litellm 1.2.3", "2026-11-01")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		AsOf     string           `json:"as_of"`
		Source   string           `json:"source"`
		Currency string           `json:"currency"`
		Models   map[string]price `json:"models"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if got.AsOf != "2026-11-01" || got.Source != "litellm 1.2.3" || got.Currency != "USD" {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]price{
		"claude-x":         {3, 30, 0.3, 3.75},
		"gpt-x":            {1, 10, 1, 1},
		"gpt-x-2026-01-01": {1.5, 15, 1.5, 1.5}, // another price than the name without a date
		"gpt-old":          {1, 10, 1, 1},
		"gpt-soon-old":     {2, 20, 2, 2},
		"qwen-x":           {6, 60, 6, 6}, // the dearest tier
		"openai-large":     {2, 20, 2, 2},
	} {
		if got.Models[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got.Models[name], want)
		}
	}
	if want := len(vendors) + 6; len(got.Models) != want {
		t.Errorf("got %d models, want %d: %s", len(got.Models), want, raw)
	}
}

func TestListWithoutAVendor(t *testing.T) {
	raw := bytes.ReplaceAll(someFile(), []byte("anthropic"), []byte("gone"))
	if _, err := listOf(raw, "litellm 1.2.3", "2026-11-01"); err == nil || !strings.Contains(err.Error(), "anthropic") {
		t.Errorf("a list without a vendor: %v", err)
	}
}

// TestRun has a program in the place of pip leave a wheel.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	wheel := filepath.Join(dir, "litellm-1.2.3-py3-none-any.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create(source)
	if err == nil {
		_, err = w.Write(someFile())
	}
	if err != nil || z.Close() != nil || f.Close() != nil {
		t.Fatal(err)
	}
	pip := filepath.Join(dir, "pip")
	script := "#!/bin/sh\nwhile [ \"$1\" != --dest ]; do shift; done\ncp '" + wheel + "' \"$2\"\n"
	if err := os.WriteFile(pip, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	out := filepath.Join(dir, "prices.json")
	if err := run(out, pip, day(t, "2026-11-02")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(raw, []byte(`"as_of": "2026-11-02"`)) || !bytes.Contains(raw, []byte(`"source": "litellm 1.2.3"`)) {
		t.Errorf("got %s, %v", raw, err)
	}
}

func day(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
