package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
)

// A benchTeam is a team of 50 agents with tasks, messages and versions.
type benchTeam struct {
	store   *sqlite.Store
	hints   *bus.Local
	content *blobs.Store
	mail    *mailroom.Mailroom
	teams   *team.Service
	boss    hub.Caller
}

func (t *table) team(tasks, messages, versions int) *benchTeam {
	b, x := t.b, &benchTeam{boss: hub.Caller{Kind: hub.CallerAgent, ID: benchAgent(0), Role: hub.RoleCoordinator}, hints: new(bus.Local)}
	var err error
	x.store, err = sqlite.Open(b.TempDir(), nil)
	must(b, err)
	_, err = keys.New(x.store, nil).EnsureOperator(b.Context(), "")
	must(b, err)
	addAgents(b, x.store)
	x.content, err = blobs.Open(b.TempDir(), nil)
	must(b, err)
	x.mail, err = mailroom.New(x.store, keys.New(x.store, nil), &mailroom.Options{Bus: x.hints, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features})
	must(b, err)
	x.teams, err = team.New(x.store, x.mail, &team.Options{Artifacts: x.content})
	must(b, err)
	var seats []team.Seat
	for i := 1; i < 50; i++ {
		seats = append(seats, team.Seat{Agent: benchAgent(i), Role: hub.RoleExecutor})
	}
	x.do(t, team.Create{Objective: "o", Members: seats})
	now := hub.At(time.Now())
	_, sum, size, err := x.content.Put(strings.NewReader("a line of text\n"))
	must(b, err)
	must(b, x.store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		for i := range tasks {
			if _, err := tx.WriteTeamspaces().PutTask(hub.Task{Team: "core", Title: fmt.Sprint("task ", i), Class: hub.ClassNormal, State: hub.TaskStates[i%len(hub.TaskStates)], CreatedAt: now, UpdatedAt: now}); err != nil {
				return err
			}
		}
		for i := range versions {
			id := fmt.Sprint("file", i%10)
			if i < 10 {
				if err := tx.WriteTeamspaces().PutTeamArtifact(hub.TeamArtifact{Team: "core", ID: id, Version: int64(versions / 10), Versions: int64(versions / 10), SHA256: sum, Size: size, At: now}); err != nil {
					return err
				}
			}
			if err := tx.WriteTeamspaces().AddArtifactVersion(hub.ArtifactVersion{Team: "core", Artifact: id, Version: int64(i/10 + 1), SHA256: sum, Size: size, At: now}); err != nil {
				return err
			}
		}
		return nil
	}))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range messages / 16 {
				_, err := x.mail.Send(b.Context(), x.boss, mailroom.Draft{To: []hub.AgentID{benchAgent(1)}, Team: "core", Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))})
				must(b, err)
			}
		})
	}
	wg.Wait()
	return x
}

func (x *benchTeam) do(t *table, r team.Request) team.Answer {
	a, err := x.teams.Perform(context.Background(), x.boss, "core", r)
	must(t.b, err)
	return a
}

// teamwork measures the page of a large team against that of a small one, and how far
// the folder of a team is behind under a load.
func (t *table) teamwork() {
	b := t.b
	small, large := t.team(10, 16, 10), t.team(1000, 10_000, 1000)
	show := func(x *benchTeam) load {
		return func(stop <-chan struct{}) int64 {
			return crowd(1, stop, func(int, int64) {
				if got := x.do(t, team.Show{Limit: 10}); len(got.Team.Tasks) != 10 || len(got.Team.Members) != 50 {
					b.Fatalf("got %d tasks and %d members", len(got.Team.Tasks), len(got.Team.Members))
				}
			})
		}
	}
	few, many := turns(show(small), show(large))
	t.ratio("team show, 10 tasks a page, µs: 50 agents, 1000 tasks, 10000 messages, 1000 versions / 10 tasks", 1e6/many, 1e6/few, "µs", 2, false)
	must(b, large.store.Close())

	root := b.TempDir()
	ctx, stop := context.WithCancel(b.Context())
	folders := folder.New(small.store, small.content, root, &folder.Options{Bus: small.hints, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	var running sync.WaitGroup
	running.Go(func() { folders.Run(ctx) })
	var n atomic.Int64
	paced(4, 100, loadTime(b)/3, func(worker int) {
		if text := fmt.Sprintln("edit", n.Add(1)); worker == 0 { // a quarter are versions
			small.do(t, team.PutArtifact{Artifact: strings.TrimSpace(strings.ReplaceAll(text, " ", "")), Content: team.Text(text)})
		} else {
			_, err := small.mail.Send(b.Context(), small.boss, mailroom.Draft{To: []hub.AgentID{benchAgent(1)}, Team: "core", Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))})
			must(b, err)
		}
	})
	ended := time.Now()
	behind := func() bool {
		var head []hub.Entry
		var at int64
		must(b, small.store.View(b.Context(), func(r hub.Reader) (err error) {
			if head, err = r.Journal(hub.JournalQuery{Newest: true, Limit: 1}); err == nil {
				at, err = r.Cursor(folder.Cursor)
			}
			return err
		}))
		return at < head[0].Seq
	}
	for behind() {
		<-time.After(10 * time.Millisecond)
	}
	t.most(fmt.Sprintf("the folder of a team is complete after %d changes, 100 a second", n.Load()), time.Since(ended).Seconds(), 2, "s")
	stop()
	running.Wait()
	must(b, small.store.Close())
}
