package reftest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/reftest"
)

// TestExchanges makes requests in the order of a recording and compares the answers with
// those of the recording. PARLEY_REFERENCE runs it against the original.
func TestExchanges(t *testing.T) {
	a := reftest.New("agent-frontend", "frontend-app", "frontend", "typescript")
	defer a.Close()
	raw, err := os.ReadFile("testdata/exchanges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var x struct {
			Name    string
			Request json.RawMessage
			Status  int
			Answer  any
		}
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		t.Run(x.Name, func(t *testing.T) {
			body := string(x.Request)
			if json.Unmarshal(x.Request, &body) != nil { // a text is a body that is no JSON
				body = string(x.Request)
			}
			res, err := http.Post(a.URL(), "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var got any
			if err := json.NewDecoder(res.Body).Decode(&got); err != nil && x.Answer != nil {
				t.Fatal(err)
			}
			if res.StatusCode != x.Status || x.Answer != nil && !fits(got, x.Answer) {
				t.Errorf("got %d %v, want %d %v", res.StatusCode, got, x.Status, x.Answer)
			}
		})
	}
}

// fits compares an answer with a recording, in which a text that ends with * stands for
// every text that begins like it.
func fits(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok || len(m) != len(want) {
			return false
		}
		for k, v := range want {
			if w, ok := m[k]; !ok || !fits(w, v) {
				return false
			}
		}
		return true
	case string:
		s, ok := got.(string)
		begin, any := strings.CutSuffix(want, "*")
		return ok && (s == want || any && strings.HasPrefix(s, begin))
	}
	return reflect.DeepEqual(got, want)
}
