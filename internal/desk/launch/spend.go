package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// SpendDir is the folder of a home with the cursors of transcripts.
const SpendDir = "spend"

const (
	tailSize    = 8 << 20         // bytes of a transcript that are read if the beginning of its session was missed
	maxPending  = 20_000          // calls that wait for the hub
	maxTurns    = 200             // turns that the hub was not told of
	maxFiles    = 200             // transcripts that the hub is asked to read
	keptTurns   = 8               // turns whose late calls are recognised
	lateEvery   = 3 * time.Second // between two looks of a waiter into the transcripts
	lateTime    = 2 * time.Second // after the end of a turn, while its hook may still read
	lockTime    = time.Second     // that a hook waits for another process with the same ledger
	readTime    = 1500 * time.Millisecond
	beforeTime  = 200 * time.Millisecond // before a tool call, which waits
	restTime    = 10 * time.Second       // for the usage of a CLI that has ended
	sessionTime = 90 * 24 * time.Hour    // after which the cursors of a session are removed
)

// A ledger remembers which usage of a session was told to the hub. It has no text of the session.
type ledger struct {
	CLI        string                       `json:"cli"`
	Session    string                       `json:"session"`
	Transcript string                       `json:"transcript,omitempty"`
	Launch     string                       `json:"launch,omitempty"` // the folder of the launch that the session runs in
	Files      map[string]transcript.Cursor `json:"files"`
	Turns      []turn                       `json:"turns,omitempty"`   // the newest, in order
	Pending    []hub.ModelCall              `json:"pending,omitempty"` // calls of a plugin that the hub has not got yet
	Problem    string                       `json:"problem,omitempty"` // why the last read failed
	Refused    refusals                     `json:"refused,omitzero"`

	path string
}

// refusals counts the lines of transcripts whose counts cannot be right.
type refusals struct {
	Lines int      `json:"lines"`
	Last  hub.Time `json:"last,omitzero"` // when one was read
}

// A turn is a part of a session, from the end of the turn before up to its own end.
type turn struct {
	End    hub.Time  `json:"end,omitzero"`     // zero while it lasts
	By     cli.Event `json:"by,omitempty"`     // that ended it
	Due    bool      `json:"due,omitempty"`    // the hub must be told that it ended, even if it has no calls
	Record string    `json:"record,omitempty"` // in which the hub has it; "" if it has not
}

// ledgerPath returns the file of the ledger of a session.
func ledgerPath(home, name, session string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + session))
	return filepath.Join(home, SpendDir, hex.EncodeToString(sum[:16])+".json")
}

// lockLedger keeps other processes from a ledger until unlock is called: the waiter of a session
// and a hook may want to change it at once, and one would undo what the other noted. After lockTime
// ok is false; a hook then goes on, because its CLI waits for it.
func lockLedger(ctx context.Context, path string) (unlock func(), ok bool) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return func() {}, false
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	ok, _ = lock.TryLockContext(ctx, 10*time.Millisecond)
	return func() { lock.Close() }, ok
}

// openLedger reads the ledger of a session; isNew says that there is none yet.
func openLedger(path, name, session string) (l ledger, isNew bool) {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	if err != nil || l.Files == nil {
		l = ledger{CLI: name, Session: session, Files: map[string]transcript.Cursor{}}
		isNew = true
	}
	l.path = path
	return l, isNew
}

// save stores the ledger.
func (l *ledger) save() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteFile(l.path, raw, 0o600)
}

// spend tells the hub the usage of model calls since the last time: those that a plugin tells,
// and those in the transcripts of the session and its subagents. The beginning of a session that
// is taken up again is skipped: its calls were made before.
func (w *Waiter) spend(ctx context.Context, event cli.Event, in cli.Input) {
	isRun := os.Getenv(fleet.RunVariable) != "" // which tells its usage over ACP
	if isRun || in.Session == "" || in.Subagent {
		return
	}
	path := ledgerPath(w.Home, w.CLI.Name, in.Session)
	unlock, _ := lockLedger(ctx, path)
	defer unlock()
	l, isNew := openLedger(path, w.CLI.Name, in.Session)
	l.Launch = os.Getenv(Variable)
	if in.Transcript != "" {
		l.Transcript = in.Transcript
	}
	l.Pending = append(l.Pending, in.Calls...)
	l.Pending = l.Pending[max(len(l.Pending)-maxPending, 0):]

	l.note(event, hub.At(time.Now()))

	isBefore := event == cli.Start || event == cli.Prompt || event == cli.Waiting // the next turn
	if isNew && isBefore {
		l.skip(w.CLI)
		l.save() // without it the next event reads the end of the transcript
		removeOld(filepath.Dir(l.path))
		return
	}
	w.tellUsage(ctx, &l, isNew)
}

// spendBefore tells the hub the model calls of the turn so far before a tool changes files or runs a
// command, so that the answer about the tool knows whether a budget is spent. What does not fit into
// beforeTime is told later. It makes no request if the transcripts have not grown.
func (w *Waiter) spendBefore(ctx context.Context, h cli.Hook, in cli.Input, raw []byte) {
	isRun := os.Getenv(fleet.RunVariable) != ""
	use, ok := w.CLI.ReadUse(h, raw)
	changes := ok && use.Kind != cli.ReadTool
	isCounted := !isRun && in.Session != "" && !in.Subagent
	if !isCounted || !changes || !w.CLI.Counts() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, beforeTime)
	defer cancel()
	path := ledgerPath(w.Home, w.CLI.Name, in.Session)
	unlock, ok := lockLedger(ctx, path)
	defer unlock()
	if !ok {
		return
	}
	l, isNew := openLedger(path, w.CLI.Name, in.Session)
	if isNew {
		return // the end of the turn reads the end of the transcript
	}
	l.Transcript = cmp.Or(in.Transcript, l.Transcript)
	if l.hasMore(w.CLI) {
		l.begin()
		w.tellUsage(ctx, &l, false)
	}
}

// readLate reads what comes into the transcripts of the session between its turns, until ctx ends:
// some CLIs write the last call of a turn after the hook at its end.
func (w *Waiter) readLate(ctx context.Context) {
	if !w.CLI.Counts() || os.Getenv(fleet.RunVariable) != "" {
		return
	}
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.readOnce(ctx)
	}
}

// readOnce reads the transcripts if they have grown since the end of the last turn and no prompt
// came since: all calls are of that turn.
func (w *Waiter) readOnce(ctx context.Context) {
	path := ledgerPath(w.Home, w.CLI.Name, w.key.ID)
	unlock, ok := lockLedger(ctx, path)
	defer unlock()
	if !ok {
		return // a hook reads them
	}
	l, _ := openLedger(path, w.CLI.Name, w.key.ID)
	if l.isBetween(time.Now()) && l.hasMore(w.CLI) {
		w.tellUsage(ctx, &l, false)
	}
}

// isBetween reports whether the last turn ended by its hook, and no call was told since.
func (l *ledger) isBetween(now time.Time) bool {
	n := len(l.Turns)
	if n > 1 && l.Turns[n-1].End.IsZero() && l.Turns[n-1].Record == "" {
		n--
	}
	if n == 0 {
		return false
	}
	last := l.Turns[n-1]
	return last.By == cli.TurnEnd && now.Sub(last.End.Time) > lateTime
}

// hasMore reports whether a transcript of the session has grown since it was read.
func (l *ledger) hasMore(c cli.CLI) bool {
	return slices.ContainsFunc(c.Transcripts(l.Transcript, l.Session, os.Getenv), func(path string) bool {
		return sizeOf(path) > l.Files[path].Offset
	})
}

// note notes an event of the newest turn. An error of the model does not end it: some CLIs try
// again in the same turn.
func (l *ledger) note(event cli.Event, now hub.Time) {
	l.begin()
	if event == cli.Failed || event == cli.Waiting {
		return
	}
	last := &l.Turns[len(l.Turns)-1]
	last.End = now
	last.By = event
	last.Due = event == cli.TurnEnd
}

// begin adds a turn after one that has ended.
func (l *ledger) begin() {
	if n := len(l.Turns); n == 0 || !l.Turns[n-1].End.IsZero() {
		l.Turns = append(l.Turns, turn{})
	}
}

// split returns the calls of each turn, by their times: a CLI may write the last call of a turn
// after the hook at the end of it. A call without a time belongs to the newest turn.
func (l *ledger) split(calls []hub.ModelCall) [][]hub.ModelCall {
	out := make([][]hub.ModelCall, len(l.Turns))
	for _, c := range calls {
		i := len(l.Turns) - 1
		if !c.At.IsZero() {
			i = slices.IndexFunc(l.Turns, func(t turn) bool { return t.End.IsZero() || !c.At.After(t.End.Time) })
		}
		if i < 0 { // its clock is ahead
			i = len(l.Turns) - 1
		}
		out[i] = append(out[i], c)
	}
	return out
}

// skip places the cursors behind everything that the transcripts have now.
func (l *ledger) skip(c cli.CLI) {
	for _, path := range c.Transcripts(l.Transcript, l.Session, os.Getenv) {
		if cursor, err := transcript.End(path); err == nil && cursor.Offset > 0 {
			l.Files[path] = cursor
		}
	}
}

// tellUsage reads the transcripts from their cursors and tells the hub. The cursors move when the
// hub has the calls.
func (w *Waiter) tellUsage(ctx context.Context, l *ledger, isNew bool) {
	reading, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	calls := slices.Clone(l.Pending)
	source := hub.UsagePlugin
	l.Problem = ""
	moved := map[string]transcript.Cursor{}
	var files []usage.TranscriptPart
	refused := 0
	for _, path := range w.CLI.Transcripts(l.Transcript, l.Session, os.Getenv) {
		source = hub.UsageTranscript
		from := l.Files[path]
		if isNew {
			from = tailOf(path)
		}
		got, err := w.readAll(reading, path, from)
		if err != nil {
			l.Problem = err.Error()
			continue
		}
		if len(got.Calls) > 0 && len(files) < maxFiles {
			files = append(files, usage.TranscriptPart{Path: path, From: from.Offset, Model: from.Model})
		}
		calls = append(calls, got.Calls...)
		moved[path] = got.Cursor
		refused += got.Refused
	}

	if err := w.tellTurns(ctx, l, source, calls, files); err != nil {
		l.Turns = l.Turns[max(len(l.Turns)-maxTurns, 0):]
		l.save() // with the calls of the plugin; transcripts are read again
		return
	}
	l.Turns = l.Turns[max(len(l.Turns)-keptTurns, 0):]
	l.Pending = nil
	if refused > 0 {
		l.Refused.Lines += refused
		l.Refused.Last = hub.At(time.Now())
	}
	l.move(moved)
}

// readAll reads a transcript from a cursor to its end, or as far as the time allows: one read has a
// limited number of calls.
func (w *Waiter) readAll(ctx context.Context, path string, from transcript.Cursor) (all transcript.Reading, err error) {
	for {
		got, err := transcript.Read(ctx, path, from, w.CLI.Counter())
		if err != nil {
			return all, err
		}
		all.Calls = append(all.Calls, got.Calls...)
		all.Refused += got.Refused
		all.Cursor = got.Cursor
		hasMoved := got.Cursor.Offset != from.Offset
		if !got.More || !hasMoved || ctx.Err() != nil {
			return all, nil
		}
		from = got.Cursor
	}
}

// tellTurns tells the hub the calls of each turn. Those of a turn that the hub has are added to
// its record, so that it stays one turn.
func (w *Waiter) tellTurns(ctx context.Context, l *ledger, source hub.UsageSource, calls []hub.ModelCall, files []usage.TranscriptPart) error {
	parts := l.split(calls)
	for i := range l.Turns {
		t := &l.Turns[i]
		if len(parts[i]) == 0 && !t.Due {
			continue
		}
		record, err := w.record(ctx, usage.Report{
			Source: source, CLI: w.CLI.Name, Session: l.Session, Turn: l.nameOf(*t), Record: t.Record, Ended: t.Due, Calls: parts[i], Files: files,
		})
		if err != nil {
			return err
		}
		t.Due = false
		t.Record = cmp.Or(t.Record, record)
	}
	return nil
}

// nameOf returns a name of a turn that no other one has, so that the hub counts it once.
func (l *ledger) nameOf(t turn) string {
	return fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(l.path), ".json"), t.End.UnixMilli())
}

// maxReported is the number of calls that one report has at most.
const maxReported = 5000

// record tells the hub the usage of a turn, in parts if it is long, and returns its record. Parts
// that the hub has already change nothing when they come again.
func (w *Waiter) record(ctx context.Context, r usage.Report) (string, error) {
	client, err := w.Client()
	if err != nil {
		return "", err
	}
	calls, ended := r.Calls, r.Ended
	for {
		n := min(len(calls), maxReported)
		r.Calls = append([]hub.ModelCall{}, calls[:n]...)
		r.Ended = ended && n == len(calls)
		got, err := rpc.Call(ctx, client, api.RecordUsage, r)
		if err != nil {
			return "", err
		}
		r.Record = cmp.Or(r.Record, got.Record)
		if calls = calls[n:]; len(calls) == 0 {
			return r.Record, nil
		}
	}
}

// move stores the cursors behind what the hub has.
func (l *ledger) move(to map[string]transcript.Cursor) {
	for path, cursor := range to {
		l.Files[path] = cursor
	}
	l.save() // without it the same calls are told again, and known
}

// tailOf returns the cursor from which a transcript is read whose beginning was missed.
func tailOf(path string) transcript.Cursor {
	end, err := transcript.End(path)
	if err != nil || end.Offset <= tailSize {
		return transcript.Cursor{}
	}
	return end.Back(tailSize)
}

// A SpendProblem is a session whose transcript, or a line of it, could not be read.
type SpendProblem struct {
	CLI     string
	Session string
	Problem string
}

// refusedTime is the time for which lines that were refused are named.
const refusedTime = 24 * time.Hour

// problem returns why some usage of the session is not counted; "" if all is.
func (l *ledger) problem(now time.Time) string {
	var parts []string
	if l.Problem != "" {
		parts = append(parts, l.Problem)
	}
	if l.Refused.Lines > 0 && now.Sub(l.Refused.Last.Time) < refusedTime {
		lines := "1 line"
		if l.Refused.Lines != 1 {
			lines = fmt.Sprintf("%d lines", l.Refused.Lines)
		}
		parts = append(parts, lines+" with counts that no model has, or that cannot be read")
	}
	return strings.Join(parts, "; ")
}

// SpendProblems returns the sessions of a home whose transcripts could not be read the last time, or
// have lines that were refused of late.
func SpendProblems(home string) (out []SpendProblem) {
	files, err := os.ReadDir(filepath.Join(home, SpendDir))
	if err != nil {
		return nil
	}
	for _, f := range files {
		var l ledger
		raw, err := os.ReadFile(filepath.Join(home, SpendDir, f.Name()))
		if err != nil || json.Unmarshal(raw, &l) != nil {
			continue
		}
		if problem := l.problem(time.Now()); problem != "" {
			out = append(out, SpendProblem{l.CLI, l.Session, problem})
		}
	}
	return out
}

// removeOld removes the ledgers of sessions of long ago.
func removeOld(folder string) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, f := range files {
		info, err := f.Info()
		if err == nil && time.Since(info.ModTime()) > sessionTime {
			os.Remove(filepath.Join(folder, f.Name())) // tried again with the next session
		}
	}
}

// spendRest tells the hub the usage of the sessions of this launch that no hook told: the CLI may
// have been killed in the middle of a turn.
func (l *Launch) spendRest(ctx context.Context) {
	files, err := os.ReadDir(filepath.Join(l.Home, SpendDir))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	w := &Waiter{CLI: l.CLI, Home: l.Home, Client: func() (*rpc.Client, error) { return l.agent, nil }}
	for _, f := range files {
		l.spendRestOf(ctx, w, filepath.Join(l.Home, SpendDir, f.Name()))
	}
}

// spendRestOf tells the hub the rest of one session, if it is of this launch.
func (l *Launch) spendRestOf(ctx context.Context, w *Waiter, path string) {
	if filepath.Ext(path) != ".json" {
		return // a lock
	}
	unlock, _ := lockLedger(ctx, path)
	defer unlock()
	raw, err := os.ReadFile(path)
	var led ledger
	isOurs := err == nil && json.Unmarshal(raw, &led) == nil && led.Launch == l.folder && led.CLI == l.CLI.Name && led.Files != nil
	if !isOurs {
		return
	}
	led.path = path
	led.note(cli.End, hub.At(time.Now()))
	w.tellUsage(ctx, &led, false)
}
