package server_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// Fifty agents accept one offer over the wire. The hub is killed in the middle and
// started again, and all of them ask again: one has the task. In the same way they put
// versions of one artifact, and every edit is in the newest.
func TestRaces(t *testing.T) {
	binary := program(t) // before the clock starts
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	defer cancel()
	c := newChaos(&chaosHub{t: t, binary: binary, home: filepath.Join(t.TempDir(), "home")})
	c.start(ctx)
	client := func(key string) *rpc.Client {
		return rpc.NewClient(c.url, key, "", &http.Client{Transport: c.transport})
	}
	keys := map[hub.AgentID]string{}
	for i := range 51 {
		id := hub.AgentID(fmt.Sprintf("w%02d", i))
		keys[id] = must(rpc.Call(ctx, c.operator(), api.AddAgent, api.AgentParams{ID: id}))(t).Key
	}
	offer := must(rpc.Call(ctx, client(keys["w50"]), api.Send, api.SendParams{
		To: api.Recipients{hub.Everyone}, Type: hub.TypeTaskOffer, Priority: hub.PriorityHigh, Payload: []byte(`{"title":"t","description":"d"}`),
	}))(t)
	accept := func(who hub.AgentID) (mailroom.Receipt, error) {
		two := int64(2)
		return rpc.Call(ctx, client(keys[who]), api.Send, api.SendParams{
			To: api.Recipients{"w50"}, Type: hub.TypeTaskAccept, Sequence: &two, Payload: fmt.Appendf(nil, `{"offer_id":%q}`, offer.ID),
		})
	}
	race := func(each func(hub.AgentID, mailroom.Receipt, error)) {
		type result struct {
			who hub.AgentID
			r   mailroom.Receipt
			err error
		}
		results := make(chan result, 50)
		for i := range 50 {
			go func() {
				who := hub.AgentID(fmt.Sprintf("w%02d", i))
				r, err := accept(who)
				results <- result{who, r, err}
			}()
		}
		for range 50 {
			got := <-results
			each(got.who, got.r, got.err)
		}
	}
	won := map[hub.AgentID]bool{}
	first := true
	race(func(who hub.AgentID, r mailroom.Receipt, err error) {
		if first { // in the middle
			first = false
			c.kill()
		}
		if err == nil && r.Status != mailroom.AlreadyClaimed {
			won[who] = true
		}
	})
	c.start(ctx)
	claimed, late := map[hub.AgentID]bool{}, 0
	race(func(who hub.AgentID, r mailroom.Receipt, err error) {
		switch {
		case err != nil:
			t.Errorf("%s: %v", who, err)
		case r.Status == mailroom.AlreadyClaimed:
			claimed[r.ClaimedBy] = true
			late++
		default:
			won[who] = true
		}
	})
	t.Run("R3-144 of fifty racing accepts one wins, also when the hub is killed meanwhile", func(t *testing.T) {
		r := must(rpc.Call(ctx, client(keys["w50"]), api.Query, api.QueryParams{Negotiation: string(offer.ID)}))(t).Talk
		if len(won) > 1 || late < 49 || len(claimed) != 1 || !claimed[r.ClaimedBy] || r.State != hub.TalkAccepted || len(r.Turns) != 2 {
			t.Errorf("won %v, claimed %v, late %d, state %s by %s, %d messages", won, claimed, late, r.State, r.ClaimedBy, len(r.Turns))
		}
		for who := range won {
			if who != r.ClaimedBy {
				t.Errorf("%s was told that it won, and %s has the task", who, r.ClaimedBy)
			}
		}
	})
	t.Run("R3-161 fifty racing puts of lines apart end in one text, and no version that was acknowledged is lost when the hub is killed meanwhile", func(t *testing.T) {
		do := func(who int, r api.TeamParams) (team.Answer, error) {
			r.Team = "core"
			return rpc.Call(ctx, client(keys[hub.AgentID(fmt.Sprintf("w%02d", who))]), api.Team, r)
		}
		seats := []team.Seat{{Agent: "w50", Role: hub.RoleCoordinator}}
		var base, edited []string
		for i := range 50 {
			seats = append(seats, team.Seat{Agent: hub.AgentID(fmt.Sprintf("w%02d", i)), Role: hub.RoleExecutor})
			base = append(base, fmt.Sprintf("line %d\n", i), "\n")
			edited = append(edited, fmt.Sprintf("edit %d\n", i), "\n")
		}
		put := func(who int, parent int64, lines []string) (team.Answer, error) {
			return do(who, api.TeamParams{Action: "artifact", Artifact: "a", ParentVersion: &parent, Content: new(strings.Join(lines, ""))})
		}
		edit := func(i int) []string { return slices.Concat(base[:2*i], edited[2*i:2*i+1], base[2*i+1:]) }
		text := func(version int64) string {
			return *must(do(50, api.TeamParams{Action: "artifact", Artifact: "a", Version: strictjson.Count(version)}))(t).Content
		}
		must(rpc.Call(ctx, c.operator(), api.Team, api.TeamParams{Action: "create", Team: "core", Objective: "o", Members: seats}))(t)
		must(put(0, 0, base))(t)
		acked := map[int]int64{}
		for round := range 2 {
			type result struct {
				who int
				a   team.Answer
				err error
			}
			results := make(chan result, 50)
			for i := range 50 {
				go func() {
					a, err := put(i, 1, edit(i))
					results <- result{i, a, err}
				}()
			}
			for n := range 50 {
				got := <-results
				if round == 0 && n == 10 { // in the middle
					c.kill()
				}
				switch {
				case got.err == nil && acked[got.who] == 0:
					acked[got.who] = got.a.Version.Version
				case got.err != nil && round == 1:
					t.Errorf("put %d: %v", got.who, got.err)
				}
			}
			if round == 0 {
				c.start(ctx)
			}
		}
		if got := text(0); got != strings.Join(edited, "") {
			t.Errorf("the newest is %q", got)
		}
		for i, version := range acked {
			if text(version) != strings.Join(edit(i), "") {
				t.Errorf("put %d, which is version %d, has other bytes", i, version)
			}
		}
	})
	c.stop()
}
