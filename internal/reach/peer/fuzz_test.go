package peer_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
)

// FuzzAnswers feeds what strangers answer to everything that reads it: errors
// are typed, and what was read can be written.
func FuzzAnswers(f *testing.F) {
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(body) }))
	f.Cleanup(s.Close)
	c := peer.NewClient(&peer.ClientOptions{Guard: loopback})
	f.Cleanup(c.Close)
	e, err := peer.NewExchange(c, s.URL)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"protocols":{"cacp":"2.0"},"extensions":{"cacp":{"agentId":"x"}}}`))
	f.Add([]byte(`{"results":[` + entryOfFrontend + `]}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"agentId":"x"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x","data":"y"}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		body = answer
		check := func(v any, err error) {
			if err != nil {
				if code := hub.CodeOf(err); code == hub.CodeInternal {
					var refusal *peer.Refusal
					if !errors.As(err, &refusal) {
						t.Fatalf("an error without a code: %v", err)
					}
				}
				return
			}
			if err := json.NewEncoder(io.Discard).Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		card, err := c.Card(t.Context(), s.URL)
		check(card, err)
		id, err := c.Health(t.Context(), s.URL)
		check(id, err)
		found, err := e.Search(t.Context(), peer.Search{Query: "x"})
		check(found, err)
		one, err := e.Agent(t.Context(), "aid://example.com/frontend@1.0.0")
		check(one, err)
		w, err := c.Redeem(t.Context(), s.URL, federation.Redemption{})
		check(w, err)
	})
}
