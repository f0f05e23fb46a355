package proof

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
)

// A Request asks for a file.
type Request struct {
	ID       string // a landing, a review, a check result, a decision, a contract, or the long id of a handoff, a run or a message
	Short    string // the id that the caller used; may be empty
	WithText bool   // with the text of a message, and the package of a handoff
}

// A Made is a file, and what leaves the hub with it.
type Made struct {
	File    File     `json:"file"`
	Noun    string   `json:"noun"`
	State   string   `json:"state"`
	AsOf    hub.Time `json:"as_of,omitzero"`
	Rows    int64    `json:"rows"` // of the journal, up to the checkpoint
	Leaves  Leaves   `json:"leaves"`
	LeftOut []string `json:"left_out"`
}

// errLag says that the newest checkpoint does not have a row yet.
var errLag = errors.New("the newest checkpoint does not have the rows yet")

// proveFor is how long Prove waits for a checkpoint with all rows.
const proveFor = 10 * time.Second

// Prove makes the file of a thing. Agents prove what they may read.
func (l *Log) Prove(ctx context.Context, caller hub.Caller, q Request) (Made, error) {
	const op = "proof.Prove"
	ctx, cancel := context.WithTimeoutCause(ctx, proveFor, hub.Errorf(hub.CodeDegraded, op, "the tree over the journal does not have the newest rows").WithHint("try again; if it stays so, run parley doctor"))
	defer cancel()
	if err := l.Stopped(); err != nil {
		return Made{}, hub.Errorf(hub.CodeDegraded, op, "%w", err).WithHint("run: %s", hintOf(err))
	}
	var hints <-chan struct{}
	if l.o.Bus != nil {
		var stop func()
		hints, stop = l.o.Bus.Subscribe(hub.TopicJournal)
		defer stop()
	}
	for {
		signer, err := l.sign(ctx)
		if err == nil {
			var made Made
			if made, err = l.prove(ctx, signer, caller, q); err == nil {
				return made, nil
			}
		}
		if !errors.Is(err, errLag) && !errors.Is(err, errNoLog) {
			return Made{}, err
		}
		tick := time.NewTimer(growGap / 4)
		select {
		case <-hints:
		case <-tick.C:
		case <-ctx.Done():
			return Made{}, context.Cause(ctx)
		}
		tick.Stop()
	}
}

// A part is a record with its row.
type part struct {
	kind   kind
	name   string
	record []byte
	row    int64
}

// A gathering collects the parts of a file in one snapshot.
type gathering struct {
	r       hub.Reader
	caller  hub.Caller
	q       Request
	size    int64 // of the newest checkpoint
	rows    map[int64]Row
	parts   []part
	leftOut []string
	noun    string
	state   string
}

func (l *Log) prove(ctx context.Context, signer *attest.Signer, caller hub.Caller, q Request) (Made, error) {
	g := &gathering{caller: caller, q: q}
	var newest hub.Checkpoint
	var check attest.Checkpoint
	err := l.store.View(ctx, func(r hub.Reader) error {
		last, err := r.Tree().Checkpoints(0, true, 1)
		if err != nil {
			return err
		}
		if len(last) == 0 {
			return errLag
		}
		newest = last[0]
		if check, err = signer.Key.OpenCheckpoint(newest.Note); err != nil {
			return errLag // the key or the log is new
		}
		g.r = r
		g.size = check.Size
		g.rows = map[int64]Row{}
		if err := g.gather(); err != nil {
			return err
		}
		if err := g.preferCosigned(signer.Key, &newest, &check); err != nil {
			return err
		}
		return g.proveRows(check)
	})
	if err != nil {
		return Made{}, err
	}

	out := Made{
		File: File{Format: Format, Of: cmp.Or(q.Short, q.ID), Key: signer.Key.Text, Checkpoint: newest.Note},
		Noun: g.noun, State: g.state, AsOf: newest.At, Rows: newest.Size, LeftOut: append([]string{}, g.leftOut...),
	}
	m := manifest{Of: out.File.Of, Noun: g.noun, State: g.state, AsOf: newest.At, Origin: check.Origin, Size: check.Size, Root: check.Root.String(), LeftOut: out.LeftOut}
	for _, seq := range slices.Sorted(maps.Keys(g.rows)) {
		row := g.rows[seq]
		out.File.Rows = append(out.File.Rows, row)
		m.Rows = append(m.Rows, manifestRow{row.Seq, row.Hash})
	}

	var first []subject
	for _, p := range g.parts {
		s, err := p.statement()
		if err != nil {
			return Made{}, err
		}
		if first == nil {
			first = s.Subject
		}
		envelope, digest, err := seal(signer, s)
		if err != nil {
			return Made{}, err
		}
		m.Statements = append(m.Statements, digest)
		out.File.Statements = append(out.File.Statements, envelope)
	}
	raw, err := json.Marshal(m)
	if err == nil {
		out.File.Manifest, _, err = seal(signer, statement{statementType, first, manifestType, raw})
	}
	out.Leaves = leavesOf(g)
	return out, err
}

// cosignedAmong is the number of newest checkpoints among which Prove looks for one with cosignatures.
const cosignedAmong = 10

// preferCosigned chooses the newest checkpoint that a witness cosigned, if it has all rows of the file.
func (g *gathering) preferCosigned(key attest.Key, newest *hub.Checkpoint, check *attest.Checkpoint) error {
	last, err := g.r.Tree().Checkpoints(0, true, cosignedAmong)
	if err != nil {
		return err
	}
	row := slices.Max(slices.Collect(maps.Keys(g.rows)))
	for _, c := range last {
		if c.Size < row || !isCosigned(c, key) {
			continue
		}
		if got, err := key.OpenCheckpoint(c.Note); err == nil {
			*newest, *check = c, got
			return nil
		}
	}
	return nil
}

// seal signs a statement and returns the SHA-256 of its payload.
func seal(signer *attest.Signer, s statement) (attest.Envelope, string, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return attest.Envelope{}, "", err
	}
	sum := sha256.Sum256(payload)
	e, err := signer.Seal(payload)
	return e, hex.EncodeToString(sum[:]), err
}

// statement returns the statement about a part.
func (p part) statement() (statement, error) {
	about, err := p.kind.subjects(p.record)
	if err != nil {
		return statement{}, err
	}
	var content any = predicate{p.row, p.record}
	if p.kind.predicate == testResult {
		var c hub.CheckResult
		if err := json.Unmarshal(p.record, &c); err != nil {
			return statement{}, err
		}
		content = testPredicateOf(c, predicate{p.row, p.record})
	}
	raw, err := json.Marshal(content)
	return statement{statementType, about, p.kind.predicate, raw}, err
}

// testPredicateOf returns the result of a check in in-toto's words.
func testPredicateOf(c hub.CheckResult, record predicate) testPredicate {
	result := "FAILED"
	if c.State == hub.ResultPassed {
		result = "PASSED"
	}
	return testPredicate{result, []descriptor{{"check " + c.Name, map[string]string{"sha256": c.Digest}, record}}}
}

// gather collects the parts of the thing that was asked for.
func (g *gathering) gather() error {
	const op = "proof.Prove"
	id := g.q.ID
	unknown := func(err error) error {
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeNotFound, op, "nothing that you can see is named %.60q", cmp.Or(g.q.Short, id)).
				WithHint("give the id of a landing (l7), a review (v4), a check result (c12), a handoff, a run, a decision, a contract or a message")
		}
		return err
	}
	switch {
	case hub.LandingID(id).Number() > 0:
		e, err := g.r.Landings().Entry(hub.LandingID(id))
		if err == nil && !g.caller.Audits() && e.Owner != g.caller.ID {
			err = hub.Errorf(hub.CodeNotFound, op, "not visible")
		}
		if err != nil {
			return unknown(err)
		}
		g.noun, g.state = "landing", string(e.State)
		return g.landing(e)
	case hub.ReviewID(id).Number() > 0:
		v, err := g.r.Landings().Review(hub.ReviewID(id))
		concerns := g.caller.Audits() || v.By == g.caller.ID || v.Reviewer == string(g.caller.ID) || slices.Contains(v.Asked, g.caller.ID) || slices.Contains(v.Authors, g.caller.ID)
		if err == nil && !concerns {
			err = hub.Errorf(hub.CodeNotFound, op, "not visible")
		}
		if err != nil {
			return unknown(err)
		}
		g.noun, g.state = "review", string(v.State)
		return g.review(v)
	case isCheckResult(id):
		c, err := g.r.Checks().Result(hub.CheckResultID(id))
		if err != nil {
			return unknown(err)
		}
		if !c.State.Over() {
			return hub.Errorf(hub.CodeConflict, op, "%s has not ended", id).WithHint("wait for it: parley check results %s", id)
		}
		g.noun, g.state = "check result", string(c.State)
		return g.check(c)
	}

	h, err := g.r.Handoff(hub.HandoffID(id))
	if err == nil && (g.caller.Audits() || h.Concerns(g.caller.ID)) {
		if h.Restricted {
			return hub.Errorf(hub.CodePolicy, op, "the handoff is restricted: it does not leave the hub")
		}
		g.noun, g.state = "handoff", string(h.Status)
		return g.handoff(h)
	}
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	run, err := g.r.Run(hub.RunID(id))
	if err == nil && (g.caller.Audits() || run.Concerns(g.caller.ID)) {
		g.noun, g.state = "run", string(run.State)
		return g.run(run)
	}
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	m, err := g.r.Message(hub.EnvelopeID(id))
	if err == nil {
		return unknown(g.message(m))
	}
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if found, err := g.contract(id); found || err != nil {
		return err
	}
	return unknown(g.decision(id))
}

func isCheckResult(id string) bool {
	return len(id) > 1 && id[0] == 'c' && hub.CheckResultID(id).Number() > 0
}

// add adds a record. Its newest row must have its digest.
func (g *gathering) add(k kind, name string, record []byte) error {
	digest, subject, err := k.digest(record)
	if err != nil {
		return err
	}
	seq, err := g.find(k, subject, name, func(facts map[string]json.RawMessage) bool { return text(facts[k.fact]) == digest })
	if err != nil {
		return err
	}
	g.parts = append(g.parts, part{k, name, record, seq})
	return nil
}

// text returns a JSON text; "" for another value.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// find returns the row of a record, and adds it to the file.
func (g *gathering) find(k kind, subject, name string, fits func(map[string]json.RawMessage) bool) (int64, error) {
	const op = "proof.Prove"
	entries, err := g.r.Journal(hub.JournalQuery{Subject: subject, Newest: true, Limit: 500})
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !slices.Contains(k.actions, e.Action) {
			continue
		}
		var facts map[string]json.RawMessage
		if err := json.Unmarshal(e.Facts, &facts); err != nil {
			return 0, hub.Errorf(hub.CodeDegraded, op, "row %d of the journal cannot be read: %v", e.Seq, err)
		}
		if text(facts[k.fact]) == "" && k.fact != stepFact {
			return 0, notProvable("%s: its journal row was written by a version that recorded no digest of it", name)
		}
		if fits(facts) {
			return e.Seq, g.row(e)
		}
	}
	archives, err := g.r.Archives()
	if err == nil && len(archives) > 0 && len(entries) == 0 {
		return 0, notProvable("%s: its journal row is in the archive", name)
	}
	if err != nil {
		return 0, err
	}
	return 0, notProvable("%s: no journal row has it as it is now", name)
}

// notProvable is the error of a thing of which no row has the digest.
func notProvable(format string, args ...any) error {
	return hub.Errorf(hub.CodeUnproven, "proof.Prove", "not provable: "+format, args...).WithHint("parley hub verify compares all records with the journal")
}

// row adds a row to the file, still without its proof.
func (g *gathering) row(e hub.Entry) error {
	if e.Seq > g.size {
		return errLag
	}
	if _, known := g.rows[e.Seq]; known {
		return nil
	}
	prev := ""
	if e.Seq > 1 {
		before, err := g.r.Journal(hub.JournalQuery{After: e.Seq - 2, Limit: 1})
		if err != nil {
			return err
		}
		if len(before) > 0 && before[0].Seq == e.Seq-1 {
			prev = before[0].Hash
		} else if prev, err = g.archivedHash(e.Seq - 1); err != nil {
			return err
		}
	}
	if e.Chain(prev) != e.Hash {
		return hub.Errorf(hub.CodeDegraded, "proof.Prove", "row %d of the journal was changed", e.Seq).WithHint("run: parley hub verify")
	}
	g.rows[e.Seq] = rowOf(e, prev, nil)
	return nil
}

// archivedHash returns the hash of the last row of an archive.
func (g *gathering) archivedHash(seq int64) (string, error) {
	archives, err := g.r.Archives()
	for _, a := range archives {
		if a.Seq == seq {
			return a.Hash, nil
		}
	}
	return "", err
}

// proveRows adds the proof of each row.
func (g *gathering) proveRows(c attest.Checkpoint) error {
	tiles := tilesOf(g.r)
	for seq, row := range g.rows {
		proof, err := attest.ProveLeaf(c.Size, seq-1, tiles)
		if err != nil {
			return err
		}
		leaf, err := attest.Leaf(row.Hash)
		if err == nil {
			err = attest.CheckLeaf(proof, c, seq-1, leaf)
		}
		if err != nil {
			return hub.Errorf(hub.CodeDegraded, "proof.Prove", "the tree over the journal has another row %d: %v", seq, err).WithHint("run: parley hub verify")
		}
		for _, h := range proof {
			row.Proof = append(row.Proof, h.String())
		}
		g.rows[seq] = row
	}
	return nil
}

// also adds a part beside the one that was asked for. One that cannot be proven is left out by name.
func (g *gathering) also(err error) error {
	if hub.CodeOf(err) == hub.CodeUnproven || hub.CodeOf(err) == hub.CodeNotFound {
		g.leftOut = append(g.leftOut, strings.TrimPrefix(err.Error(), "not provable: "))
		return nil
	}
	return err
}

func (g *gathering) landing(e hub.LandingEntry) error {
	if err := g.addJSON(landingKind, "landing "+string(e.ID), e); err != nil {
		return err
	}
	if e.UndoneBy != "" {
		undo, err := g.r.Landings().Entry(e.UndoneBy)
		if err == nil {
			err = g.addJSON(landingKind, "landing "+string(undo.ID), undo)
		}
		if err := g.also(err); err != nil {
			return err
		}
	}
	for _, id := range e.Results {
		c, err := g.r.Checks().Result(hub.CheckResultID(id))
		if err == nil {
			err = g.check(c)
		}
		if err := g.also(err); err != nil {
			return err
		}
	}

	holder := cmp.Or(e.Handoff, e.Holder)
	queries := []hub.ReviewQuery{{Entry: e.ID, Limit: 20}}
	if holder != "" {
		queries = append(queries, hub.ReviewQuery{Handoff: holder, Limit: 20})
	}
	for _, q := range queries {
		reviews, err := g.r.Landings().Reviews(q)
		if err != nil {
			return err
		}
		for _, v := range reviews {
			if v.Commit != e.Commit || v.State == hub.ReviewStateWaiting {
				continue
			}
			if err := g.also(g.review(v)); err != nil {
				return err
			}
		}
	}
	if holder == "" {
		return nil
	}
	h, err := g.r.Handoff(holder)
	if err == nil && h.Restricted {
		g.leftOut = append(g.leftOut, "the handoff: it is restricted")
		return nil
	}
	if err == nil {
		err = g.handoff(h)
	}
	return g.also(err)
}

// addJSON adds a noun whose row has the digest of its JSON.
func (g *gathering) addJSON(k kind, name string, noun any) error {
	raw, err := json.Marshal(noun)
	if err != nil {
		return err
	}
	return g.add(k, name, raw)
}

func (g *gathering) review(v hub.Review) error {
	return g.addJSON(reviewKind, "review "+string(v.ID), v)
}

func (g *gathering) check(c hub.CheckResult) error {
	return g.addJSON(checkKind, "check result "+string(c.ID), c.Recorded())
}

// stepFact is the member of the facts of a row with the digest of a step.
const stepFact = "step_sha256"

// handoff adds a handoff with its draft, its completion or rejection, and its newest step.
func (g *gathering) handoff(h hub.Handoff) error {
	name := "handoff " + string(h.ID)
	if short, err := g.r.ShortID(string(h.ID)); err == nil {
		name = "handoff " + string(short)
	}
	steps, err := g.r.HandoffSteps(h.ID)
	if err != nil {
		return err
	}
	record := handoffRecord{
		ID: h.ID, ThreadID: h.ThreadID, TaskID: h.TaskID, From: h.From, To: h.To, Title: h.Title, Reason: h.Reason, Hash: h.Hash, Previous: h.Previous,
		NeedsHuman: h.NeedsHuman, Deadline: h.Deadline, Initiated: h.InitiatedAt, Team: h.Team, Steps: []stepRecord{},
	}
	if g.q.WithText {
		record.Package = h.Package
	}
	last := -1
	for i, s := range steps {
		if s.State == hub.HandoffCompleted || s.State == hub.HandoffRejected {
			last = i
		}
	}
	if len(steps) == 0 {
		return notProvable("%s: it has no history", name)
	}
	for i, s := range steps {
		isClosed := s.State == hub.HandoffClosed && i == last+1
		if i != last && (i != len(steps)-1 || isClosed) {
			continue
		}
		step := stepRecord{State: s.State, At: s.At, Actor: s.Actor, Note: s.Note, Checks: []json.RawMessage{}}
		for _, c := range s.Checks {
			raw, err := json.Marshal(c)
			if err != nil {
				return err
			}
			step.Checks = append(step.Checks, raw)
		}
		k := kind{actions: actionsOfSteps, fact: stepFact}
		step.Row, err = g.find(k, string(h.ID), name, func(facts map[string]json.RawMessage) bool { return text(facts[stepFact]) == step.digest() })
		if err != nil {
			return err
		}
		record.Steps = append(record.Steps, step)
	}
	if g.noun == handoffKind.noun {
		g.state = string(record.Steps[len(record.Steps)-1].State)
	}
	return g.addJSON(handoffKind, name, record)
}

func (g *gathering) run(r hub.Run) error {
	if r.Handoff != "" {
		h, err := g.r.Handoff(r.Handoff)
		if err == nil && h.Restricted {
			return hub.Errorf(hub.CodePolicy, "proof.Prove", "the handoff of the run is restricted: it does not leave the hub")
		}
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
	}
	return g.addJSON(runKind, "run "+string(r.ID), recordOfRun(r))
}

// message adds a message for its sender, its readers and auditors; its text never leaves through an
// auditor.
func (g *gathering) message(m hub.Message) error {
	const op = "proof.Prove"
	if !g.caller.IsOperator() {
		found, err := g.r.Parties(m.ID, g.caller.ID)
		isParty := err == nil && len(found) > 0 && !found[0].Hidden
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		if !isParty && !g.caller.Audits() {
			return hub.Errorf(hub.CodeNotFound, op, "not visible")
		}
		if !isParty && g.q.WithText {
			return hub.Errorf(hub.CodeDenied, op, "only its sender, its recipients and the operator let the text of a message leave").WithHint("leave out --with-text")
		}
	}
	g.noun, g.state = "message", string(m.Type)
	sum := sha256.Sum256(m.Payload)
	record := messageRecord{ID: m.ID, Digest: m.Digest(), Payload: hex.EncodeToString(sum[:])}
	if g.q.WithText {
		record.Envelope = &m.Envelope
	}
	return g.addJSON(messageKind, "message "+string(m.ID), record)
}

// contract adds the present version of a contract, which every agent of the hub may read. It reports
// whether there is one with the id.
func (g *gathering) contract(id string) (found bool, err error) {
	const some = 100 // projects that are read at once
	after := coord.ProjectID("")
	for more := true; more; {
		projects, err := g.r.Coordination().Projects(after, some)
		if err != nil {
			return false, err
		}
		for _, p := range projects {
			after = p.ID
			c, err := g.r.Coordination().Contract(p.ID, coord.ContractID(id))
			if hub.CodeOf(err) == hub.CodeNotFound {
				continue
			}
			if err != nil {
				return false, err
			}
			g.noun, g.state = contractKind.noun, c.State()
			return true, g.addJSON(contractKind, "contract "+id, recordOfContract(c))
		}
		more = len(projects) == some
	}
	return false, nil
}

func (g *gathering) decision(id string) error {
	q := hub.DecisionQuery{Limit: 200}
	for more := true; more; {
		page, err := g.r.Decisions(q)
		if err != nil {
			return err
		}
		for _, d := range page {
			q.Cursor = d.ID
			if d.ID != id {
				continue
			}
			if !g.caller.Audits() && !slices.Contains(d.Deciders, g.caller.ID) {
				break
			}
			seen, err := hub.DecisionFor(g.r, g.caller, d)
			if err != nil {
				return err
			}
			if seen.Digest() != d.Digest() {
				return hub.Errorf(hub.CodeDenied, "proof.Prove", "the text of decision %s is withheld from you", id)
			}
			g.noun, g.state = "decision", d.Status
			return g.addJSON(decisionKind, "decision "+d.ID, d)
		}
		more = len(page) == q.Limit
	}
	return hub.Errorf(hub.CodeNotFound, "proof.Prove", "not visible")
}
