package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/diff3"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
)

const (
	teamPage     = 50 // teams, tasks of a list, artifacts or versions on one page
	taskCards    = 20 // tasks of one state on the board
	decisionPage = 10
)

type teamsData struct {
	Teams      []team.View
	Lifecycle  hub.Lifecycle // those that are shown; "" for all that are not archived
	Lifecycles []hub.Lifecycle
	States     []hub.TaskState
	Most       int // conflicts of a team that are counted
	Next       string
}

func teams(ctx context.Context, v *visit) (string, any, error) {
	q := v.r.URL.Query()
	d := teamsData{Lifecycle: hub.Lifecycle(q.Get("lifecycle")), Lifecycles: hub.Lifecycles, States: hub.TaskStates, Most: team.MaxConflicts}
	got, err := perform(ctx, v, api.Team, api.TeamParams{Action: "list", Lifecycle: d.Lifecycle, Cursor: q.Get("cursor"), Limit: teamPage})
	d.Teams, d.Next = got.Teams, got.Next
	return "Teams", d, err
}

// A taskColumn is the part of a team's board for some states.
type taskColumn struct {
	Name, Empty string
	States      []hub.TaskState
	Count       int
	Tasks       []hub.Task
	More        []hub.TaskState // states of which tasks are left out
}

type teamData struct {
	team.View
	Board []taskColumn // empty if tasks are filtered
	Spent map[hub.TaskID]string
	// Stopped are tasks that their owners have without a handoff and cannot go on with.
	Stopped []hub.Continuation

	State hub.TaskState
	Owner hub.AgentID

	States     []hub.TaskState
	Next       string // of the tasks that are filtered
	Artifacts  []hub.TeamArtifact
	NextFile   string
	Decisions  []decisionView
	NextChoice string // of the decisions
}

// A decisionView is a decision of a team.
type decisionView struct {
	hub.Decision
	Hidden bool // its words are for operators alone
}

func oneTeam(ctx context.Context, v *visit) (string, any, error) {
	id, q := hub.TeamID(v.r.PathValue("team")), v.r.URL.Query()
	d := teamData{State: hub.TaskState(q.Get("state")), Owner: hub.AgentID(q.Get("owner")), States: hub.TaskStates}
	filtered := d.State != "" || d.Owner != ""

	r := api.TeamParams{Action: "show", Team: id, State: d.State, Owner: d.Owner, Cursor: q.Get("cursor"), Limit: teamPage}
	if !filtered {
		r.Cursor, r.Limit = "", 1 // the board reads tasks by itself
	}
	got, err := perform(ctx, v, api.Team, r)
	if err != nil {
		return "", nil, err
	}
	d.View, d.Next = *got.Team, got.Next
	if d.Spent, err = v.spendByTask(ctx, id); err != nil {
		return "", nil, err
	}
	if d.Stopped, err = v.stoppedTasks(ctx, id); err != nil {
		return "", nil, err
	}

	if !filtered {
		if d.Board, err = v.board(ctx, d.View); err != nil {
			return "", nil, err
		}
	}

	files, err := perform(ctx, v, api.Team, api.TeamParams{Action: "artifact", Team: id, Cursor: q.Get("artifacts"), Limit: teamPage})
	if err != nil {
		return "", nil, err
	}
	d.Artifacts, d.NextFile = files.Artifacts, files.Next

	// The words of a deliberation of high sensitivity are hidden from viewers.
	list, err := perform(ctx, v, api.ListDecisions, api.DecisionListParams{Team: string(id), Cursor: q.Get("decisions"), Limit: decisionPage})
	if err != nil {
		return "", nil, err
	}
	for _, choice := range list.Decisions {
		hidden, err := v.hides(ctx, choice)
		if err != nil {
			return "", nil, err
		}
		d.Decisions = append(d.Decisions, decisionView{choice, hidden})
	}
	if len(list.Decisions) == decisionPage {
		d.NextChoice = list.Decisions[decisionPage-1].ID
	}
	return d.Name, d, nil
}

// board returns the tasks of a team by their states.
func (v *visit) board(ctx context.Context, t team.View) ([]taskColumn, error) {
	board := []taskColumn{
		{Name: "To do", Empty: "Tasks that are not started, or that the review sent back.", States: []hub.TaskState{hub.TaskBacklog, hub.TaskAssigned, hub.TaskRework}},
		{Name: "In progress", Empty: "Tasks that their owner is working on.", States: []hub.TaskState{hub.TaskInProgress}},
		{Name: "Waiting", Empty: "Tasks in review or blocked.", States: []hub.TaskState{hub.TaskInReview, hub.TaskBlocked}},
		{Name: "Over", Empty: "Tasks that are done or dropped.", States: []hub.TaskState{hub.TaskDone, hub.TaskDropped}},
	}
	for i := range board {
		c := &board[i]
		for _, state := range c.States {
			n := t.TaskCounts[state]
			if c.Count += n; n == 0 {
				continue
			}
			got, err := perform(ctx, v, api.Team, api.TeamParams{Action: "show", Team: t.ID, State: state, Limit: taskCards})
			if err != nil {
				return nil, err
			}
			if c.Tasks = append(c.Tasks, got.Team.Tasks...); n > taskCards {
				c.More = append(c.More, state)
			}
		}
	}
	return board, nil
}

// hides reports whether a decision ended a deliberation of high sensitivity, whose words
// a viewer does not read.
func (v *visit) hides(ctx context.Context, d hub.Decision) (bool, error) {
	if v.operator() {
		return false, nil
	}
	for _, ref := range d.Refs {
		got, err := perform(ctx, v, api.Query, api.QueryParams{Disagreement: ref})
		if hub.CodeOf(err) == hub.CodeNotFound {
			got, err = perform(ctx, v, api.Query, api.QueryParams{Negotiation: ref})
		}
		if hub.CodeOf(err) == hub.CodeNotFound {
			continue
		}
		if err != nil || got.Talk.Policy.Sensitivity == hub.SensitivityHigh {
			return true, err
		}
	}
	return false, nil
}

// A contentView is the content of a version of an artifact.
type contentView struct {
	hub.ArtifactVersion
	Text   string // as it is stored
	IsText bool   // it is text that is short enough for a page
	Large  bool   // it is too long for one
}

// versionNumber returns a version that an address names, and another value if it names none.
func versionNumber(text string, without int64) (int64, error) {
	if text == "" {
		return without, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, hub.Errorf(hub.CodeInvalid, "web", "%.40q is not a version number", text)
	}
	return n, nil
}

// content reads a version of an artifact. Version 0 is empty.
func (v *visit) content(ctx context.Context, a hub.TeamArtifact, version int64) (out contentView, err error) {
	if version == 0 {
		return contentView{IsText: true}, nil
	}
	got, err := perform(ctx, v, api.Team, api.TeamParams{Action: "artifact", Team: a.Team, Artifact: a.ID, Version: strictjson.Count(version)})
	if err != nil {
		return out, err
	}
	out.ArtifactVersion, out.Large = *got.Version, got.Content == nil
	if got.Content != nil && got.Encoding == "" && diff3.IsText([]byte(*got.Content)) {
		out.Text, out.IsText = *got.Content, true
	}
	return out, nil
}

// An artifactData is an artifact of a team, and the parts that its two pages share.
type artifactData struct {
	hub.TeamArtifact
	Here, Page string         // the addresses of this page, and of the artifact
	Hidden     bool           // content and notes are for operators alone
	Conflicts  []hub.Conflict // to be merged
	Signs      []hub.Conflict // merges that wait for the signature of the operator
	Unsigned   bool           // merges of the operator wait for the signature of a reviewer
}

// artifactLog returns an artifact with a page of its versions.
func (v *visit) artifactLog(ctx context.Context, cursor string) (artifactData, team.Answer, error) {
	name := v.r.PathValue("artifact")
	if !hub.ValidArtifactID(name) {
		return artifactData{}, team.Answer{}, hub.Errorf(hub.CodeNotFound, "web", "%.80q is not a valid artifact name", name)
	}
	got, err := perform(ctx, v, api.Team, api.TeamParams{Action: "artifact", Team: hub.TeamID(v.r.PathValue("team")), Artifact: name, Log: true, Cursor: cursor, Limit: teamPage})
	if err != nil {
		return artifactData{}, got, err
	}
	a := *got.Artifact
	d := artifactData{TeamArtifact: a, Here: v.r.URL.RequestURI(), Page: fmt.Sprintf("/teams/%s/artifacts/%s", a.Team, a.ID), Hidden: a.Sensitivity == hub.SensitivityHigh && !v.operator()}
	for _, k := range got.Conflicts {
		switch {
		case k.Result == 0:
			d.Conflicts = append(d.Conflicts, k)
		case k.MergedBy == hub.Operator:
			d.Unsigned = true
		default:
			d.Signs = append(d.Signs, k)
		}
	}
	return d, got, nil
}

type versionsData struct {
	artifactData
	Versions []hub.ArtifactVersion
	Next     string
	Shown    contentView
	From     contentView // with which the shown one is compared
	With     int64       // the version that the form offers for a comparison
	Lines    []diffLine  // the differences; nil without a comparison
	TooLong  bool        // the texts have too many lines for a comparison
}

func artifact(ctx context.Context, v *visit) (string, any, error) {
	q := v.r.URL.Query()
	base, got, err := v.artifactLog(ctx, q.Get("cursor"))
	if err != nil {
		return "", nil, err
	}
	d := versionsData{artifactData: base, Versions: got.Versions, Next: got.Next}

	version, err := versionNumber(q.Get("version"), d.Version)
	if err != nil {
		return "", nil, err
	}
	from, err := versionNumber(q.Get("from"), 0)
	if err != nil {
		return "", nil, err
	}

	if d.Shown, err = v.content(ctx, d.TeamArtifact, version); err != nil {
		return "", nil, err
	}

	// With from, the page compares two versions, unless they are too long to compare.
	if from > 0 {
		if d.From, err = v.content(ctx, d.TeamArtifact, from); err != nil {
			return "", nil, err
		}
		if d.From.IsText && d.Shown.IsText {
			if d.TooLong = max(strings.Count(d.From.Text, "\n"), strings.Count(d.Shown.Text, "\n")) >= maxDiff; !d.TooLong {
				d.Lines = hunks(diffLines(d.From.Text, d.Shown.Text))
			}
		}
	}

	d.With = cmp.Or(from, d.Shown.Parent)
	if d.Hidden {
		d.Shown.Text = ""
		d.From.Text = ""
		d.Shown.Note = ""
		d.Lines = nil
		for i := range d.Versions {
			d.Versions[i].Note = ""
		}
	}
	return d.ID, d, nil
}

// A pane shows one of the three versions of a merge, compared with the base.
type pane struct {
	Name string
	contentView
	Lines []diffLine
	Cut   bool // lines were left out
}

type mergeData struct {
	artifactData
	Conflict hub.Conflict // zero if the version does not wait for a merge
	Beside   int64
	Others   []hub.Conflict // that wait, too
	Panes    []pane
	Editable bool   // the form can hold the text as it is
	CRLF     bool   // lines end so
	Text     string // in the form
	Marked   bool   // the text has marks
	Typed    bool   // the text is that of a form that was refused
	Note     string
}

func mergePage(ctx context.Context, v *visit) (string, any, error) {
	base, _, err := v.artifactLog(ctx, "")
	if err != nil {
		return "", nil, err
	}
	d := mergeData{artifactData: base}

	// Without a choice the page shows the first conflict, and lists the others.
	first := int64(0)
	if len(d.Conflicts) > 0 {
		first = d.Conflicts[0].Version
	}
	if d.Beside, err = versionNumber(v.r.URL.Query().Get("beside"), first); err != nil {
		return "", nil, err
	}
	for _, k := range d.Conflicts {
		if k.Version == d.Beside {
			d.Conflict = k
		} else {
			d.Others = append(d.Others, k)
		}
	}

	title := "Merge " + d.ID
	if v.typed != nil {
		d.Text = unixLines(v.typed.Get("content"))
		d.Note = v.typed.Get("note")
		d.Typed = true
	}
	if d.Conflict.Version == 0 || d.Hidden {
		return title, d, nil
	}

	// The base comes first: both other versions are compared with it.
	for _, p := range []struct {
		name    string
		version int64
	}{{"Base", d.Conflict.Base}, {"Newest", d.Version}, {"Beside it", d.Beside}} {
		got, err := v.content(ctx, d.TeamArtifact, p.version)
		if err != nil {
			return "", nil, err
		}

		shown := pane{Name: p.name, contentView: got}
		if got.IsText {
			was := got.Text
			if len(d.Panes) > 0 && d.Panes[0].IsText && d.Conflict.Base > 0 {
				was = d.Panes[0].Text
			}
			shown.Lines = diffLines(strings.TrimSuffix(was, "\n"), strings.TrimSuffix(got.Text, "\n"))
			if shown.Cut = len(shown.Lines) > 2*maxDiff; shown.Cut {
				shown.Lines = shown.Lines[:2*maxDiff]
			}
		}
		d.Panes = append(d.Panes, shown)
	}

	err = d.fill(ctx)
	return title, d, err
}

// fill puts the merge of the three versions into the form, with marks where it takes a
// person. A form keeps text whose lines all end in one way.
func (d *mergeData) fill(ctx context.Context) error {
	end := ""
	for _, p := range d.Panes {
		mine, ok := lineEnd(p.Text)
		isMixed := mine != "" && end != "" && mine != end
		if !ok || !p.IsText || isMixed {
			return nil
		}
		end = cmp.Or(end, mine)
	}
	if d.Editable, d.CRLF = true, end == "\r\n"; d.Typed {
		return nil
	}
	text, err := diff3.Mark(ctx, []byte(d.Panes[0].Text), []byte(d.Panes[1].Text), []byte(d.Panes[2].Text), diff3.Label{
		Base: fmt.Sprintf("version %d, the base", d.Conflict.Base), A: fmt.Sprintf("version %d, the newest", d.Version), B: fmt.Sprintf("version %d, beside it", d.Beside),
	})
	d.Text, d.Marked = unixLines(string(text)), diff3.Marked(text) > 0
	return err
}

// lineEnd returns the bytes that end each line of a text, "" for a text of one line. It
// reports false if lines end in several ways.
func lineEnd(text string) (string, bool) {
	switch plain := unixLines(text); {
	case strings.Contains(plain, "\r"):
		return "", false
	case !strings.Contains(plain, "\n"):
		return "", true
	case plain == text:
		return "\n", true
	default:
		return "\r\n", strings.ReplaceAll(plain, "\n", "\r\n") == text
	}
}

// unixLines returns text with the line ends of Unix. A browser sends others.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// merge stores the text of the form, or one of both versions, as the merge.
func merge(ctx context.Context, f form) (string, error) {
	r := api.TeamParams{Action: "merge", Team: hub.TeamID(f.Get("team")), Artifact: f.Get("artifact"), Note: strings.TrimSpace(f.Get("note"))}
	for _, name := range []string{"newest", "beside"} {
		n, err := versionNumber(f.Get(name), 0)
		if err != nil {
			return "", err
		}
		r.Parents = append(r.Parents, n)
	}

	// One of both versions is taken by its hash; a text of the form must be free of the marks of
	// conflicts.
	if i := slices.Index([]string{"newest", "beside"}, f.Get("take")); i >= 0 {
		got, err := f.content(ctx, hub.TeamArtifact{Team: r.Team, ID: r.Artifact}, r.Parents[i])
		if err != nil {
			return "", err
		}
		r.SHA256 = got.SHA256
	} else {
		text := unixLines(f.Get("content"))
		if line := diff3.Marked([]byte(text)); line > 0 {
			return "", hub.Errorf(hub.CodeInvalid, "web", "line %d of the text is a conflict marker: nothing was stored", line).WithHint("choose the lines to keep at each marked place, and remove its four markers")
		}
		if f.Get("crlf") != "" {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		r.Content = &text
		for _, n := range r.Parents { // the page shows both as they are
			v, err := f.content(ctx, hub.TeamArtifact{Team: r.Team, ID: r.Artifact}, n)
			if hub.CodeOf(err) == hub.CodeNotFound {
				break // the merge says what there is
			}
			if err != nil {
				return "", err
			}
			r.Of = append(r.Of, v.SHA256)
		}
	}

	got, err := perform(ctx, f.visit, api.Team, r)
	if err != nil {
		return "", err
	}
	if got.Artifact.Sensitivity == hub.SensitivityHigh {
		return fmt.Sprintf("Version %d of %s is the merge. A team reviewer must sign it.", got.Version.Version, r.Artifact), nil
	}
	return fmt.Sprintf("Version %d of %s is the merge. The members are notified.", got.Version.Version, r.Artifact), nil
}

func signMerge(ctx context.Context, f form) (string, error) {
	_, err := perform(ctx, f.visit, api.Team, api.TeamParams{Action: "merge", Team: hub.TeamID(f.Get("team")), Artifact: f.Get("artifact"), SignOff: true})
	return fmt.Sprintf("The merge of %s is signed.", f.Get("artifact")), err
}
