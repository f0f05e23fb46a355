package report_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/parley-agents/parley/protocol/report"
)

// The vectors are data for anybody who writes a reader. Their names begin with
// the rule that they are about.
type vectors struct {
	Lines []struct {
		Name, Line   string
		Field, Value *string
	}
	Texts, JSON, Any []vector
	Dispatches       []struct {
		Name, Text  string
		Dispatch    json.RawMessage
		Diagnostics []report.Code
	}
}

type vector struct {
	Name, Text  string
	Reference   *values
	Tolerant    *values
	Diagnostics []report.Code
}

// values are what a report says, with what only a tolerant reader knows.
type values struct {
	Status        string         `json:"status"`
	FilesCreated  []string       `json:"files_created"`
	FilesModified []string       `json:"files_modified"`
	Tests         *string        `json:"tests"`
	Build         *string        `json:"build"`
	Error         *string        `json:"error"`
	Learned       *string        `json:"learned"`
	StatusKnown   bool           `json:"status_known"`
	Extra         []report.Field `json:"extra"`
}

// seven returns the values that both modes have.
func (v *values) seven() *values {
	if v == nil {
		return nil
	}
	out := *v
	out.StatusKnown, out.Extra = false, nil
	return &out
}

// found returns what a result says in JSON, nil if it is no report.
func found(t *testing.T, r report.Result, err error) *values {
	t.Helper()
	if err != nil {
		if r.Status != "" {
			t.Errorf("not a report, but the status is %q", r.Status)
		}
		return nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v values
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

// codes returns each code once, sorted.
func codes(all []report.Diagnostic) []report.Code {
	out := []report.Code{}
	for _, d := range all {
		out = append(out, d.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s\ngot  %s\nwant %s", what, g, w)
	}
}

func load(t testing.TB) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Lines) == 0 || len(v.Texts) == 0 || len(v.JSON) == 0 || len(v.Any) == 0 || len(v.Dispatches) == 0 {
		t.Fatal("a kind of vector is missing")
	}
	return v
}

func TestVectors(t *testing.T) {
	v := load(t)
	for _, c := range v.Lines {
		t.Run(c.Name, func(t *testing.T) {
			field, value, ok := report.ParseLine(c.Line)
			if ok != (c.Field != nil) {
				t.Fatalf("%q is a field: got %v, want %v", c.Line, ok, !ok)
			}
			if ok && (field != *c.Field || value != *c.Value) {
				t.Errorf("%q: got (%s, %s), want (%s, %s)", c.Line, field, value, *c.Field, *c.Value)
			}
		})
	}
	for _, c := range v.Texts {
		t.Run(c.Name, func(t *testing.T) {
			r, err := report.Parse(c.Text, nil)
			same(t, "tolerant", found(t, r, err), c.Tolerant)
			same(t, "diagnostics", codes(r.Diagnostics), c.Diagnostics)
			r, err = report.Parse(c.Text, &report.Options{Mode: report.Reference})
			same(t, "reference", found(t, r, err).seven(), c.Reference)
		})
	}
	for _, c := range v.JSON {
		t.Run(c.Name, func(t *testing.T) {
			r, err := report.ParseJSON([]byte(c.Text), nil)
			same(t, "tolerant", found(t, r, err), c.Tolerant)
			same(t, "diagnostics", codes(r.Diagnostics), c.Diagnostics)
			r, err = report.ParseJSON([]byte(c.Text), &report.Options{Mode: report.Reference})
			same(t, "reference", found(t, r, err).seven(), c.Reference)
		})
	}
	for _, c := range v.Any {
		t.Run(c.Name, func(t *testing.T) {
			r, err := report.ParseAny(c.Text, nil)
			same(t, "tolerant", found(t, r, err), c.Tolerant)
			same(t, "diagnostics", codes(r.Diagnostics), c.Diagnostics)
		})
	}
	for _, c := range v.Dispatches {
		t.Run("dispatch: "+c.Name, func(t *testing.T) {
			r, err := report.ParseDispatch(c.Text, nil)
			same(t, "diagnostics", codes(r.Diagnostics), c.Diagnostics)
			if (err == nil) != (string(c.Dispatch) != "null") {
				t.Fatalf("got error %v, want %s", err, c.Dispatch)
			}
			if err != nil {
				return
			}
			raw, err := json.Marshal(r.Dispatch)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal(c.Dispatch, &want)); err != nil {
				t.Fatal(err)
			}
			same(t, "dispatch", got, want)
		})
	}
}

// TestNoDiagnosticMeansAgreement holds the vectors to their own promise.
func TestNoDiagnosticMeansAgreement(t *testing.T) {
	v := load(t)
	for _, c := range slices.Concat(v.Texts, v.JSON) {
		if len(c.Diagnostics) == 0 {
			same(t, c.Name, c.Tolerant.seven(), c.Reference)
		}
		if c.Reference != nil && c.Tolerant == nil {
			t.Errorf("%s: reference accepts what tolerant does not", c.Name)
		}
	}
}
