package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestManual(t *testing.T) {
	got := string(manual("parley-x", "Send a message. It is kept.\n\n.hidden --flag \\\n'quoted'\n", "v1", day))
	for _, part := range []string{
		".TH PARLEY\\-X 1 2026-01-02 \"parley v1\"", "parley\\-x \\- Send a message\n", "\n\\&.hidden \\-\\-flag \\e\n", "\n\\&'quoted'\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
}

func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabc": "1.2.3-4-gabc", "abc123-dirty": "0.0.0+abc123.dirty"} {
		if got := packageVersion(version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

// TestBill lists the modules of this test.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := bill(self, "v1", day)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct {
				Version string
				Hashes  []struct{ Alg, Content string }
			}
		}
		Components []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	main := got.Metadata.Component
	if got.Format != "CycloneDX" || main.Version != "v1" || len(main.Hashes) != 1 || len(main.Hashes[0].Content) != 64 || len(got.Components) == 0 || got.Components[0].Name != "std" {
		t.Errorf("got %s", raw)
	}
}

func TestCheckPrices(t *testing.T) {
	list := []byte(`{"as_of": "2026-01-02"}`)
	if err := checkPrices(list, day.Add(60*24*time.Hour)); err != nil {
		t.Errorf("60 days later: %v", err)
	}
	for name, err := range map[string]error{
		"61 days later": checkPrices(list, day.Add(61*24*time.Hour)), "no date": checkPrices([]byte(`{}`), day), "no list": checkPrices([]byte(`x`), day),
	} {
		if err == nil || (name == "61 days later" && !strings.Contains(err.Error(), "make prices")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
