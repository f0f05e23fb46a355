package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/usage"
)

// A shower prints the thing with an id.
type shower func(a *app, ctx context.Context, c *rpc.Client, id string) error

// An idKind is a kind of things that have short ids: a prefix and a number.
type idKind struct {
	prefix string
	name   string
	show   shower
}

// idKinds has the prefixes of all short ids. No prefix occurs twice.
func idKinds() []idKind {
	return []idKind{
		{"m", "message", (*app).showMessage},
		{"h", "handoff", (*app).showHandoff},
		{"l", "landing", (*app).showLanding},
		{"v", "review", (*app).showReview},
		{"c", "check result", (*app).showCheckResult},
		{"r", "reservation", (*app).showReservation},
		{"b", "budget", (*app).showBudget},
		{"k", "continuation", (*app).showContinuation},
		{"s", "kept work", (*app).showKeptWork},
		{"T-", "task of a team", (*app).showTask},
		{"n", "negotiation", (*app).showNegotiation},
		{"q", "question of a kept agent", (*app).showQuestion},
		{"e", "schedule", (*app).showSchedule},
	}
}

// splitID returns the prefix and the number of a short id; "" if it has not that form.
func splitID(id string) (prefix string, n int64) {
	i := strings.IndexAny(id, "123456789")
	if i <= 0 {
		return "", 0
	}
	n, err := strconv.ParseInt(id[i:], 10, 64)
	if err != nil {
		return "", 0
	}
	return id[:i], n
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show anything by its id",
		Long: `Show the whole story of a thing, in the order in which it happened: a message (m4), handoff
(h1), landing (l2), review (v1), result of a check (c5), reservation (r1), budget (b1),
continuation (k1), kept work (s1), task of a team (T-2), negotiation (n3), question of a
kept agent (q1), schedule (e1), or a run, contract or project by its id or name.`,
		Example: `  parley show m4
  parley show h1
  parley show T-2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), args[0]) },
	}
}

// show prints the thing with an id or a name.
func (a *app) show(ctx context.Context, id string) error {
	prefix, _ := splitID(id)
	kinds := idKinds()
	i := slices.IndexFunc(kinds, func(k idKind) bool { return k.prefix == prefix })
	isRun := i < 0 && hub.RunID(id).Valid()
	if isRun { // the files of a run are here, also while no hub runs
		done, err := a.showRun(ctx, id)
		if done || err != nil {
			return err
		}
	}
	c, err := a.client()
	if err != nil && isRun {
		return hub.Errorf(hub.CodeNotFound, "parley", "no run %s has its files here, and the hub was not asked: %v", id, err)
	}
	if err != nil {
		return err
	}
	if i >= 0 {
		return kinds[i].show(a, ctx, c, id)
	}
	return a.showNamed(ctx, c, id)
}

// showNamed prints a thing by a long id or a name: the first of a message, handoff, contract and
// project that exists.
func (a *app) showNamed(ctx context.Context, c *rpc.Client, id string) error {
	var first error
	for _, show := range []shower{(*app).showMessage, (*app).showHandoff, (*app).showContract, (*app).showProject} {
		err := show(a, ctx, c, id)
		switch hub.CodeOf(err) {
		case hub.CodeNotFound, hub.CodeInvalid:
			if first == nil {
				first = err
			}
		default:
			return err
		}
	}
	return hub.Errorf(hub.CodeOf(first), "parley", "nothing has the id or name %q", id).WithHint("an id is printed by the command that lists a kind: parley handoff, parley land, parley log --whole")
}

func (a *app) showMessage(ctx context.Context, c *rpc.Client, id string) error {
	got, err := rpc.Call(ctx, c, api.Trace, api.IDParams{ID: hub.EnvelopeID(id)})
	if hub.CodeOf(err) == hub.CodeNotFound { // a decider may read the negotiation that a message began
		for _, q := range []api.QueryParams{{Negotiation: id}, {Disagreement: id}} {
			if talk, none := rpc.Call(ctx, c, api.Query, q); none == nil && talk.Talk != nil {
				return a.print(talk, func(w io.Writer) { writeTalk(w, *talk.Talk) })
			}
		}
	}
	if err != nil {
		return err
	}
	beginsTalk := got.Message.Type.Negotiates() && got.Message.ThreadID == string(got.Message.ID)
	if beginsTalk {
		return a.showTalk(ctx, got.Message)
	}
	return a.print(got, func(w io.Writer) { writeMessageTrace(w, got, readThread(ctx, c, got.Message, id)) })
}

// showTalk prints the negotiation or the disagreement that a message began.
func (a *app) showTalk(ctx context.Context, e hub.Envelope) error {
	q := api.QueryParams{Negotiation: e.ThreadID}
	if e.Type.Feature() == hub.FeatureDisagreement {
		q = api.QueryParams{Disagreement: e.ThreadID}
	}
	return answer(ctx, a, api.Query, q, func(w io.Writer, got api.QueryAnswer) { writeTalk(w, *got.Talk) })
}

// showNegotiation prints the negotiation n17, which the message m17 began.
func (a *app) showNegotiation(ctx context.Context, c *rpc.Client, id string) error {
	return a.showMessage(ctx, c, "m"+strings.TrimPrefix(id, "n"))
}

// showHandoff prints a handoff with its package, checks and history, and the messages of its thread.
func (a *app) showHandoff(ctx context.Context, c *rpc.Client, id string) error {
	got, err := rpc.Call(ctx, c, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(id)})
	if err != nil {
		return err
	}
	mail, err := rpc.Call(ctx, c, api.Query, api.QueryParams{Thread: got.Report.ThreadID})
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) {
		writeHandoff(w, *got.Report)
		writeCost(w, got.Spend)
		writeMailOf(w, mail)
	})
}

func (a *app) showLanding(ctx context.Context, c *rpc.Client, id string) error {
	return showAs(ctx, a, c, api.ShowEntry, api.EntryParams{ID: hub.LandingID(id)}, writeLandingDetail)
}

// showAs prints the answer of an operation that reads one thing.
func showAs[P, R any](ctx context.Context, a *app, c *rpc.Client, o rpc.Operation[*api.Services, P, R], p P, write func(io.Writer, R)) error {
	got, err := rpc.Call(ctx, c, o, p)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { write(w, got) })
}

// one returns the only thing of a list with an id.
func one[T any](kind, id string, list []T, has func(T) bool) (T, error) {
	i := slices.IndexFunc(list, has)
	if i >= 0 {
		return list[i], nil
	}
	var none T
	return none, hub.Errorf(hub.CodeNotFound, "parley", "no %s %s", kind, id)
}

func (a *app) showReview(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.ListReviews, api.ReviewsParams{All: true})
	if err != nil {
		return err
	}
	v, err := one("review", id, list.Reviews, func(v hub.Review) bool { return string(v.ID) == id })
	if err != nil {
		return err
	}
	return a.print(v, func(w io.Writer) {
		writeReviews(w, api.ReviewList{Reviews: []hub.Review{v}})
		for _, f := range v.Findings {
			fmt.Fprintf(w, "  %s:%d: %s\n", plaintext.Line(f.Path), f.Line, plaintext.Line(f.Text))
		}
	})
}

func (a *app) showCheckResult(ctx context.Context, c *rpc.Client, id string) error {
	return showAs(ctx, a, c, api.ShowResult, api.ResultParams{ID: hub.CheckResultID(id)}, func(w io.Writer, got api.ResultAnswer) {
		io.WriteString(w, plaintext.Text(got.Result.Output.Tail))
		writeResult(w, got.Result)
	})
}

func (a *app) showKeptWork(ctx context.Context, c *rpc.Client, id string) error {
	err := showAs(ctx, a, c, api.ShowKeptWork, api.KeptID{ID: hub.KeptID(id)}, writeKeptWork)
	if isOfContinuation(err) {
		return showAs(ctx, a, c, api.ShowRescue, api.RescueParams{ID: hub.RescueID(id)}, writeRescue)
	}
	return err
}

func (a *app) showReservation(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.ListFiles, reservation.Filter{})
	if err != nil {
		return err
	}
	r, err := one("reservation", id, list.Reservations, func(r reservation.Row) bool { return string(r.ID) == id })
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) { writeReservations(w, reservation.Listing{Reservations: []reservation.Row{r}}) })
}

func (a *app) showBudget(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.ListBudgets, api.None{})
	if err != nil {
		return err
	}
	b, err := one("budget", id, list.Budgets, func(b usage.BudgetRow) bool { return b.ID == id })
	if err != nil {
		return err
	}
	return a.print(b, func(w io.Writer) { writeBudgets(w, []usage.BudgetRow{b}) })
}

func (a *app) showContinuation(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.Continuations, api.ContinuationListParams{})
	if err != nil {
		return err
	}
	k, err := one("continuation", id, list.Continuations, func(k hub.Continuation) bool { return string(k.ID) == id })
	if err != nil {
		return err
	}
	list.Continuations = []hub.Continuation{k}
	return a.print(k, func(w io.Writer) { writeContinuations(w, list) })
}

func (a *app) showSchedule(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.ListSchedules, api.None{})
	if err != nil {
		return err
	}
	s, err := one("schedule", id, list.Schedules, func(s hub.Schedule) bool { return string(s.ID) == id })
	if err != nil {
		return err
	}
	return a.print(s, func(w io.Writer) { writeSchedules(w, api.ScheduleList{Schedules: []hub.Schedule{s}}) })
}

func (a *app) showQuestion(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.ListKept, api.None{})
	if err != nil {
		return err
	}
	_, n := splitID(id)
	for _, k := range list.Agents {
		for _, q := range k.Asks {
			if int64(q.ID) == n {
				return a.print(q, func(w io.Writer) { writeQuestion(w, k.Agent, q) })
			}
		}
	}
	return hub.Errorf(hub.CodeNotFound, "parley", "no question %s waits", id).WithHint("parley approve lists what waits")
}

// showTask prints a task of a team of the caller.
func (a *app) showTask(ctx context.Context, c *rpc.Client, id string) error {
	list, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "list"})
	if err != nil {
		return err
	}
	for _, t := range list.Teams {
		got, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "task", Team: t.ID, Task: hub.TaskID(id)})
		switch hub.CodeOf(err) {
		case "":
			return a.print(got, func(w io.Writer) { writeTeam(w, got) })
		case hub.CodeNotFound:
		default:
			return err
		}
	}
	return hub.Errorf(hub.CodeNotFound, "parley", "no task %s in a team of yours", id).WithHint("parley team lists your teams, parley team show NAME the tasks of one")
}

func (a *app) showContract(ctx context.Context, c *rpc.Client, name string) error {
	return a.showOne(ctx, a.contractShowCommand(), name)
}

func (a *app) showProject(ctx context.Context, c *rpc.Client, name string) error {
	got, err := rpc.Call(ctx, c, coordination.ListProjects, coordination.ListParams{})
	if err != nil {
		return err
	}
	for _, p := range got.Projects {
		if p.Name == name || string(p.ID) == name {
			return a.showOne(ctx, a.projectShowCommand(), string(p.ID))
		}
	}
	return hub.Errorf(hub.CodeNotFound, "parley", "no project %q", name)
}

// showOne runs a command that shows the thing with a name.
func (a *app) showOne(ctx context.Context, cmd *cobra.Command, name string) error {
	cmd.SetContext(ctx)
	return cmd.RunE(cmd, []string{name})
}

// showRun prints a run: its claim, evidence and verdict, and the journal of the hub about it. done is
// false if no run has the id.
func (a *app) showRun(ctx context.Context, id string) (done bool, err error) {
	files, r, err := a.runRecord(ctx, id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	var trace *api.RunTrace
	if c, unable := a.client(); unable == nil && !a.json {
		if got, missing := rpc.Call(ctx, c, api.ShowRun, api.RunIDParams{ID: r.ID}); missing == nil {
			trace = &got
		}
	}
	return true, a.print(runResult{Record: r, Frames: files.Frames(r.ID)}, func(w io.Writer) {
		fmt.Fprintf(w, "%s, by %s in %s\n", r.Task, r.Agent, r.Dir)
		fmt.Fprintf(w, "from %s", when(r.StartedAt))
		if !r.EndedAt.IsZero() {
			fmt.Fprintf(w, " to %s", when(r.EndedAt))
		}
		fmt.Fprintln(w)
		a.writeRun(w, r)
		if trace != nil {
			fmt.Fprintln(w)
			writeRunTrace(w, *trace)
		}
	})
}
