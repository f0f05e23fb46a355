package mcptools_test

import (
	"net/http"
	"testing"

	"github.com/parley-agents/parley/server"
)

func TestManySessions(t *testing.T) {
	t.Run("an agent has a bounded number of sessions, and the oldest gives way", func(t *testing.T) {
		const most = 32
		r := start(t, server.Options{})
		aliceKey, bobKey := r.add(t, "alice"), r.add(t, "bob")
		bobs := r.begin(t, bobKey)
		var all []*raw
		for range most + 3 {
			all = append(all, r.begin(t, aliceKey))
		}
		lives := func(c *raw) bool {
			first, _, _ := c.do("POST", call("1", "acp_query", "{}")) // the whole way
			again, _, _ := c.do("POST", call("1", "acp_query", "{}")) // the shortcut
			if first != again {
				t.Errorf("the whole way answers %d, the shortcut %d", first, again)
			}
			return again == http.StatusOK
		}
		if !lives(bobs) || !lives(all[len(all)-1]) {
			t.Error("the newest session, or that of another agent, was ended")
		}
		n := 0
		for _, c := range all {
			if lives(c) {
				n++
			}
		}
		if n != most {
			t.Errorf("got %d sessions, want %d", n, most)
		}
	})
}
