package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// MaxFile is the most bytes of a file.
const MaxFile = 8 << 20

// A Report is what a file says, if all of it fits together and a known key signed it.
type Report struct {
	Of         string   `json:"of"`
	Noun       string   `json:"noun"`
	State      string   `json:"state"`
	Origin     string   `json:"origin"` // the log
	Key        string   `json:"key"`
	AsOf       hub.Time `json:"as_of,omitzero"`
	Rows       int64    `json:"rows"` // of the journal, up to the checkpoint
	Root       string   `json:"root"`
	Statements []Stated `json:"statements"`
	LeftOut    []string `json:"left_out"`

	// Cosigned names the logs of the witnesses that cosigned the checkpoint, of those whose keys the
	// caller trusts.
	Cosigned []string `json:"cosigned,omitempty"`
}

// A Stated is one statement of the hub. One of the nouns is set.
type Stated struct {
	Noun string      `json:"noun"`
	Row  int64       `json:"row"`
	At   hub.Time    `json:"at,omitzero"`
	By   hub.AgentID `json:"by"` // of the row

	Landing  *hub.LandingEntry `json:"landing,omitempty"`
	Review   *hub.Review       `json:"review,omitempty"`
	Check    *hub.CheckResult  `json:"check,omitempty"`
	Handoff  *Handoff          `json:"handoff,omitempty"`
	Run      *hub.Run          `json:"run,omitempty"`
	Decision *hub.Decision     `json:"decision,omitempty"`
	Message  *Message          `json:"message,omitempty"`
	Contract *coord.Contract   `json:"contract,omitempty"`
}

// A Handoff is what the hub states about a handoff.
type Handoff struct {
	Task  string            `json:"task_id"`
	Title string            `json:"title"`
	From  hub.AgentID       `json:"from"`
	To    hub.AgentID       `json:"to"`
	Hash  string            `json:"package_hash"`
	Proof hub.Proof         `json:"proof,omitempty"` // of the work, when the task was completed
	Steps []hub.HandoffStep `json:"steps"`

	Package json.RawMessage `json:"package,omitempty"`
}

// A Message is what the hub states about a message.
type Message struct {
	ID       hub.EnvelopeID  `json:"id"`
	To       []hub.AgentID   `json:"to"`
	Type     hub.MessageType `json:"type"`
	Payload  string          `json:"payload_sha256"`
	Envelope *hub.Envelope   `json:"envelope,omitempty"`
}

// An UnknownKey is the finding that a file fits together, and that nothing here says whose key signed
// it.
type UnknownKey struct{ Key attest.Key }

func (u *UnknownKey) Error() string {
	return fmt.Sprintf("unknown key: nothing here says whose key %s is", u.Key.Text)
}

// Verify checks a file with the keys that the caller trusts. It needs nothing else.
func Verify(raw []byte, trusted []attest.Key) (Report, error) {
	var f File
	if len(raw) > MaxFile {
		return Report{}, fmt.Errorf("it has more than %d MB, and no file of parley prove has", MaxFile>>20)
	}
	if err := strictjson.Decode(raw, &f); err != nil {
		return Report{}, fmt.Errorf("it is not a file of parley prove: %w", err)
	}
	if f.Format != Format {
		return Report{}, fmt.Errorf("its format is %.40q, and this version reads %s", f.Format, Format)
	}
	key, err := attest.ParseKey(f.Key)
	if err != nil {
		return Report{}, fmt.Errorf("its key: %w", err)
	}

	check, err := key.OpenCheckpoint(f.Checkpoint)
	if err != nil {
		return Report{}, fmt.Errorf("its checkpoint: %w", err)
	}
	rows, err := checkRows(f.Rows, check)
	if err != nil {
		return Report{}, err
	}
	m, about, err := checkManifest(f, key, check)
	if err != nil {
		return Report{}, fmt.Errorf("the statement that lists its parts: %w", err)
	}
	out := Report{Of: f.Of, Noun: m.Noun, State: m.State, Origin: check.Origin, Key: f.Key, AsOf: m.AsOf, Rows: check.Size, Root: check.Root.String(), LeftOut: m.LeftOut}

	v := &verifier{key: key, rows: rows, used: map[int64]bool{}}
	for i, e := range f.Statements {
		s, err := v.statement(e, m.Statements[i])
		if err != nil {
			return Report{}, fmt.Errorf("statement %d: %w", i+1, err)
		}
		out.Statements = append(out.Statements, s)
	}
	if err := v.whole(out, about); err != nil {
		return Report{}, err
	}
	for _, k := range trusted {
		if _, ok := k.Cosigned(f.Checkpoint); ok {
			out.Cosigned = append(out.Cosigned, k.Name)
		}
	}
	if !slices.ContainsFunc(trusted, key.Is) {
		return out, &UnknownKey{key}
	}
	return out, nil
}

// checkRows checks that each row has its hash, and that the checkpoint has the row.
func checkRows(rows []Row, c attest.Checkpoint) (map[int64]hub.Entry, error) {
	out := map[int64]hub.Entry{}
	last := int64(0)
	for _, r := range rows {
		where := fmt.Sprintf("row %d of the journal", r.Seq)
		if r.Seq <= last {
			return nil, fmt.Errorf("%s does not come after row %d", where, last)
		}
		last = r.Seq
		if r.Seq > c.Size {
			return nil, fmt.Errorf("%s is not in the checkpoint, which ends at row %d", where, c.Size)
		}
		e, err := r.entry()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if e.Chain(r.Prev) != r.Hash {
			return nil, fmt.Errorf("%s: its hash is not that of its members", where)
		}
		leaf, err := attest.Leaf(r.Hash)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		proof, err := r.hashes()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if attest.CheckLeaf(proof, c, r.Seq-1, leaf) != nil {
			return nil, fmt.Errorf("%s: its proof does not lead to the root of the checkpoint", where)
		}
		out[r.Seq] = e
	}
	return out, nil
}

// open reads a statement of the key.
func open(key attest.Key, e attest.Envelope) (s statement, digest string, err error) {
	payload, err := key.Open(e)
	if err != nil {
		return s, "", err
	}
	if err := strictjson.Decode(payload, &s); err != nil {
		return s, "", fmt.Errorf("its payload: %w", err)
	}
	if s.Type != statementType {
		return s, "", fmt.Errorf("its payload is of type %.60q", s.Type)
	}
	sum := sha256.Sum256(payload)
	return s, hex.EncodeToString(sum[:]), nil
}

// checkManifest checks that the file has exactly the parts that the hub put into it.
func checkManifest(f File, key attest.Key, c attest.Checkpoint) (m manifest, about []subject, err error) {
	s, _, err := open(key, f.Manifest)
	if err != nil {
		return m, nil, err
	}
	if s.PredicateType != manifestType {
		return m, nil, fmt.Errorf("it is of type %.80q", s.PredicateType)
	}
	if err := strictjson.Decode(s.Predicate, &m); err != nil {
		return m, nil, err
	}
	switch {
	case m.Of != f.Of:
		return m, nil, fmt.Errorf("it is of %.40q, and the file says %.40q", m.Of, f.Of)
	case m.Origin != c.Origin || m.Size != c.Size || m.Root != c.Root.String():
		return m, nil, fmt.Errorf("it names the checkpoint of row %d, and the file has that of row %d", m.Size, c.Size)
	case len(m.Rows) != len(f.Rows):
		return m, nil, fmt.Errorf("it lists %d rows of the journal, and the file has %d", len(m.Rows), len(f.Rows))
	case len(m.Statements) != len(f.Statements) || len(f.Statements) == 0:
		return m, nil, fmt.Errorf("it lists %d statements, and the file has %d", len(m.Statements), len(f.Statements))
	}
	for i, r := range f.Rows {
		if m.Rows[i] != (manifestRow{r.Seq, r.Hash}) {
			return m, nil, fmt.Errorf("row %d of the file is not the one that it lists, row %d", r.Seq, m.Rows[i].Seq)
		}
	}
	return m, s.Subject, nil
}

// A verifier checks the statements of a file against its rows.
type verifier struct {
	key  attest.Key
	rows map[int64]hub.Entry
	used map[int64]bool // rows from which a statement follows
	main []subject      // of the first statement
}

// statement checks that one statement follows from the rows.
func (v *verifier) statement(e attest.Envelope, listed string) (out Stated, err error) {
	s, digest, err := open(v.key, e)
	if err != nil {
		return out, err
	}
	if digest != listed {
		return out, errors.New("it is not the one that the hub put into this file")
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.predicate == s.PredicateType })
	if i < 0 {
		return out, fmt.Errorf("it is of type %.80q, which this version does not know", s.PredicateType)
	}
	k := kinds[i]
	p, err := predicateOf(k, s)
	if err != nil {
		return out, fmt.Errorf("%s: %w", k.noun, err)
	}
	if v.main == nil {
		v.main = s.Subject
	}

	row, err := v.follow(k, p)
	if err != nil {
		return out, fmt.Errorf("%s: %w", k.noun, err)
	}
	about, err := k.subjects(p.Record)
	if err != nil {
		return out, fmt.Errorf("%s: %w", k.noun, err)
	}
	if !reflect.DeepEqual(about, s.Subject) {
		return out, fmt.Errorf("%s: its subjects are not those of its record", k.noun)
	}
	out = Stated{Noun: k.noun, Row: row.Seq, At: row.At, By: row.Actor}
	if err := v.read(&out, p, row); err != nil {
		return out, fmt.Errorf("%s: %w", k.noun, err)
	}
	return out, nil
}

// predicateOf returns the record of a statement and its row.
func predicateOf(k kind, s statement) (p predicate, err error) {
	if k.predicate != testResult {
		return p, strictjson.Decode(s.Predicate, &p)
	}
	var test testPredicate
	if err := strictjson.Decode(s.Predicate, &test); err != nil {
		return p, err
	}
	if len(test.Configuration) != 1 {
		return p, fmt.Errorf("it names %d checks instead of one", len(test.Configuration))
	}
	p = test.Configuration[0].Annotations
	var c hub.CheckResult
	if err := json.Unmarshal(p.Record, &c); err != nil {
		return p, err
	}
	want := testPredicateOf(c, p)
	if test.Result != want.Result || !reflect.DeepEqual(test.Configuration, want.Configuration) {
		return p, fmt.Errorf("it says %.20q, which does not follow from its record", test.Result)
	}
	return p, nil
}

// follow checks that the row of a record has its digest, and that no later row of the file is about
// the same thing.
func (v *verifier) follow(k kind, p predicate) (hub.Entry, error) {
	row, ok := v.rows[p.Row]
	if !ok {
		return row, fmt.Errorf("the file does not have its row %d", p.Row)
	}
	digest, subject, err := k.digest(p.Record)
	if err != nil {
		return row, err
	}
	var facts map[string]json.RawMessage
	if err := json.Unmarshal(row.Facts, &facts); err != nil {
		return row, fmt.Errorf("row %d: %w", row.Seq, err)
	}
	switch {
	case !slices.Contains(k.actions, row.Action):
		return row, fmt.Errorf("row %d is about something else (%.40s)", row.Seq, row.Action)
	case subject != "" && subject != row.Subject:
		return row, fmt.Errorf("row %d is about %.60q, not about %.60q", row.Seq, row.Subject, subject)
	case text(facts[k.fact]) != digest:
		return row, fmt.Errorf("it does not follow from row %d: the row has the digest of another record", row.Seq)
	}
	if k.noun == messageKind.noun && text(facts["payload_sha256"]) != payloadOf(p.Record) {
		return row, fmt.Errorf("it does not follow from row %d: the row has another text", row.Seq)
	}
	for seq, later := range v.rows {
		if seq > row.Seq && later.Subject == row.Subject && slices.Contains(k.actions, later.Action) {
			return row, fmt.Errorf("row %d says something later about it", seq)
		}
	}
	v.used[row.Seq] = true
	return row, nil
}

func payloadOf(record []byte) string {
	var m messageRecord
	if json.Unmarshal(record, &m) != nil {
		return ""
	}
	return m.Payload
}

// read turns a record into the noun.
func (v *verifier) read(out *Stated, p predicate, row hub.Entry) error {
	switch out.Noun {
	case landingKind.noun:
		return json.Unmarshal(p.Record, &out.Landing)
	case reviewKind.noun:
		return json.Unmarshal(p.Record, &out.Review)
	case checkKind.noun:
		return json.Unmarshal(p.Record, &out.Check)
	case decisionKind.noun:
		return json.Unmarshal(p.Record, &out.Decision)
	case runKind.noun:
		var r runRecord
		err := strictjson.Decode(p.Record, &r)
		run := r.run()
		out.Run = &run
		return err
	case contractKind.noun:
		var c contractRecord
		err := strictjson.Decode(p.Record, &c)
		contract := c.contract()
		out.Contract = &contract
		return err
	case messageKind.noun:
		var m messageRecord
		if err := strictjson.Decode(p.Record, &m); err != nil {
			return err
		}
		out.Message = &Message{ID: m.ID, Payload: m.Payload, Envelope: m.Envelope}
		var facts struct {
			To   []hub.AgentID   `json:"to"`
			Type hub.MessageType `json:"type"`
		}
		err := json.Unmarshal(row.Facts, &facts)
		out.Message.To, out.Message.Type = facts.To, facts.Type
		return err
	}
	var h handoffRecord
	if err := strictjson.Decode(p.Record, &h); err != nil {
		return err
	}
	out.Handoff = &Handoff{Task: h.TaskID, Title: h.Title, From: h.From, To: h.To, Hash: h.Hash, Package: h.Package}
	return v.steps(out.Handoff, h)
}

// steps checks the steps of a handoff against their rows.
func (v *verifier) steps(out *Handoff, h handoffRecord) error {
	last := int64(0)
	for _, s := range h.Steps {
		row, ok := v.rows[s.Row]
		if !ok {
			return fmt.Errorf("the file does not have row %d of a step", s.Row)
		}
		var facts map[string]json.RawMessage
		if err := json.Unmarshal(row.Facts, &facts); err != nil {
			return fmt.Errorf("row %d: %w", row.Seq, err)
		}
		isRow := slices.Contains(actionsOfSteps, row.Action) && row.Subject == string(h.ID)
		if !isRow || text(facts[stepFact]) != s.digest() {
			return fmt.Errorf("its step %q does not follow from row %d", s.State, row.Seq)
		}
		if s.Row <= last {
			return fmt.Errorf("row %d of a step does not come after row %d", s.Row, last)
		}
		last = s.Row
		v.used[s.Row] = true
		if proof := text(facts["proof"]); proof != "" {
			out.Proof = hub.Proof(proof)
		}
		step := hub.HandoffStep{State: s.State, At: s.At, Actor: s.Actor, Note: s.Note}
		for _, raw := range s.Checks {
			var c hub.Check
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
			step.Checks = append(step.Checks, c)
		}
		out.Steps = append(out.Steps, step)
	}
	for seq, row := range v.rows {
		isStep := row.Subject == string(h.ID) && slices.Contains(actionsOfSteps, row.Action)
		if isStep && seq > last && last > 0 {
			return fmt.Errorf("row %d says something later about it", seq)
		}
	}
	return nil
}

// whole checks that the file is of the thing that its first statement is about.
func (v *verifier) whole(out Report, about []subject) error {
	for seq := range v.rows {
		if !v.used[seq] {
			return fmt.Errorf("row %d of the journal: no statement of the file is about it", seq)
		}
	}
	first := out.Statements[0]
	id, state := first.named()
	switch {
	case out.Noun != first.Noun:
		return fmt.Errorf("the statement that lists its parts says %.40q, and its first statement is about a %s", out.Noun, first.Noun)
	case out.State != state:
		return fmt.Errorf("the statement that lists its parts says %.40q, and its first statement says %q", out.State, state)
	case id != "" && out.Of != id:
		return fmt.Errorf("it says that it is of %.40q, and its first statement is about %s", out.Of, id)
	case !reflect.DeepEqual(about, v.main):
		return errors.New("the statement that lists its parts is about something else than its first statement")
	}
	return nil
}

// named returns the id of the noun, "" if a file may have a short one, and its state.
func (s Stated) named() (id, state string) {
	switch {
	case s.Landing != nil:
		return string(s.Landing.ID), string(s.Landing.State)
	case s.Review != nil:
		return string(s.Review.ID), string(s.Review.State)
	case s.Check != nil:
		return string(s.Check.ID), string(s.Check.State)
	case s.Decision != nil:
		return s.Decision.ID, s.Decision.Status
	case s.Run != nil:
		return "", string(s.Run.State)
	case s.Message != nil:
		return "", string(s.Message.Type)
	case s.Contract != nil:
		return string(s.Contract.ID), s.Contract.State()
	case s.Handoff != nil && len(s.Handoff.Steps) > 0:
		return "", string(s.Handoff.Steps[len(s.Handoff.Steps)-1].State)
	}
	return "", ""
}

// Commits returns the names of the commits that the first statement is about.
func (r Report) Commits() (out []string) {
	s := r.Statements[0]
	switch {
	case s.Landing != nil:
		out = append(out, s.Landing.Commit, s.Landing.LandedCommit)
	case s.Review != nil:
		out = append(out, s.Review.Commit)
	case s.Check != nil:
		out = append(out, s.Check.Commit)
	case s.Handoff != nil:
		for _, step := range s.Handoff.Steps {
			for _, c := range step.Checks {
				if c.Change != nil {
					out = append(out, c.Change.Now.Commit)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(c string) bool { return c == "" })
}

// minCommit is the fewest digits with which a commit is named.
const minCommit = 7

// IsOf reports whether a file is about a commit, which may be shortened.
func (r Report) IsOf(commit string) bool {
	commit = strings.ToLower(commit)
	return len(commit) >= minCommit && slices.ContainsFunc(r.Commits(), func(c string) bool { return strings.HasPrefix(c, commit) })
}
