package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// A disk that is nearly full and a contract with two contents are found by the hub
// itself, wait for a person, and reach a target.
func TestWaitsThatTheHubFinds(t *testing.T) {
	t.Parallel()
	told := newReceiver(t)
	h := newHosted(t, "all", told.tell, func(o *server.Options) { o.Home = hubtest.SmallDisk(t, 64) })
	waits := func(kind attention.Kind) (attention.Item, bool) {
		t.Helper()
		items := mustCall(t, h.as(h.operator), api.Now, api.None{}).Waiting.Items()
		i := slices.IndexFunc(items, func(w attention.Item) bool { return w.Kind == kind })
		if i < 0 {
			return attention.Item{}, false
		}
		return items[i], true
	}
	t.Run("a low disk", func(t *testing.T) {
		w, ok := waits(attention.KindDisk)
		if !ok || w.ID != "home" || !strings.Contains(w.Fact, "MiB free") {
			t.Errorf("got %+v", w)
		}
		eventually(t, "people are told", func() bool { return told.count(`"kind":"disk","id":"home"`) == 1 })
	})
	t.Run("a conflict of contents", func(t *testing.T) {
		if w, ok := waits(attention.KindConflict); ok {
			t.Errorf("before there is one: %+v", w)
		}
		g := invited(t, h.running, h.project, "frontend-app", "aid://front.example/hub@1.0.0", nil)
		g.call(t, "cacp/project/join", m{"projectId": h.project, "repoName": "frontend-app", "agentEndpoint": g.home.URL}).wantOK(t, nil)
		g.call(t, "cacp/contract/sync", h.contractCopy(t, m{"content": m{"b": 1}, "proposed_by": h.repos["frontend-app"], "updated_at": soon})).wantOK(t, nil)
		w, ok := waits(attention.KindConflict)
		if id := h.project + "/" + h.contract; !ok || w.ID != id || !strings.Contains(w.Fact, "two contents of version 1") {
			t.Errorf("got %+v, want one of %s", w, id)
		}
		eventually(t, "people are told", func() bool { return told.count(`"kind":"conflict","id":"`+h.project+"/"+h.contract) == 1 })
		ask[m](t, h.running, "cacp/contract/update", m{"projectId": h.project, "contractId": h.contract, "content": m{"c": 1}})
		if w, ok := waits(attention.KindConflict); ok {
			t.Errorf("after a version that ends it: %+v", w)
		}
		eventually(t, "people are told that it is over", func() bool { return told.count(`"ended":[{"kind":"conflict"`) == 1 })
	})
}
