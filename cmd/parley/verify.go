package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/proof"
)

func (a *app) verifyCommand() *cobra.Command {
	var keyFile, commit, newer string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a file of parley prove, without a hub",
		Long: `Check a file that parley prove wrote. It needs no hub, no home and no network. It prints
what the hub says, what it did not check, and "verified"; or what is wrong, with exit
code 1: a signature, a row of the journal, a proof, a statement that does not follow from
the rows, another commit, an unknown key.

A key is known if --key names a file with it, if your hub or one of its witnesses has it
(with your key: PARLEY_KEY, --key-file), or if .parley/keys has it in the branch of the
repository around you (for a landing: its target branch). A key of the repository proves
who keeps the repository, no more.

A file speaks of the moment of its checkpoint: it never shows what happened afterwards.
--newer asks a hub for its present checkpoint, checks that its log goes on from the file,
and prints how many rows follow. With your key of that hub (PARLEY_KEY, --key-file), it
also prints what the hub says now, such as that a landing was undone. --newer also takes a
file with a later checkpoint and its proof, from HUB/checkpoint?since=SIZE, or a second
file of parley prove. A hub that shows two histories is found: both signed notes are
printed, and are the proof.`,
		Example: `  parley verify l7.proof.json --key hub.key
  parley verify l7.proof.json --newer https://hub.example
  parley verify l7.proof.json --commit HEAD`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.verifyFile(cmd.Context(), args[0], keyFile, commit, newer)
		},
	}
	f := cmd.Flags()
	f.StringVar(&keyFile, "key", "", "file with the public keys that you trust")
	f.StringVar(&newer, "newer", "", "address of the hub, or a file with a later checkpoint: its log must go on from the file")
	f.StringVar(&commit, "commit", "", "require that the file is about this commit")
	return cmd
}

// A verification is the result of parley verify.
type verification struct {
	Verified bool          `json:"verified"`
	Problem  string        `json:"problem,omitempty"`
	KeyFrom  string        `json:"key_from,omitempty"` // the source of the key
	Says     []string      `json:"says,omitempty"`
	Report   *proof.Report `json:"report,omitempty"`

	Newer *proof.Continued `json:"newer,omitempty"`
	Now   *proof.Report    `json:"now,omitempty"`   // of the hub's present file of the same thing
	Notes []string         `json:"notes,omitempty"` // two signed checkpoints that contradict each other
}

// maxKeys is the size of the largest file of keys.
const maxKeys = 1 << 20

// verifyFile checks a file and prints what it says.
func (a *app) verifyFile(ctx context.Context, name, keyFile, commit, newer string) error {
	tooLarge := fmt.Errorf("it has more than %d MB, and no file of parley prove has", proof.MaxFile>>20)
	raw, err := a.read(ctx, name, proof.MaxFile, tooLarge)
	if err != nil && !errors.Is(err, tooLarge) {
		return err
	}
	var trusted []attest.Key
	out := verification{KeyFrom: keyFile}
	if keyFile != "" {
		text, err := os.ReadFile(keyFile)
		if err == nil && len(text) > maxKeys {
			err = fmt.Errorf("%s has more than %d bytes", keyFile, maxKeys)
		}
		if err == nil {
			trusted, err = attest.ParseKeys(string(text))
		}
		if err != nil {
			return invalid(err)
		}
	}

	var got proof.Report
	if err == nil {
		got, err = proof.Verify(raw, trusted)
	}
	unknown, isUnknown := errors.AsType[*proof.UnknownKey](err)
	if isUnknown && keyFile == "" && a.repositoryHas(ctx, got, unknown.Key) {
		err, isUnknown = nil, false
		out.KeyFrom = "this repository"
	}
	if isUnknown && keyFile == "" && err != nil {
		if name := a.peerWith(ctx, unknown.Key); name != "" {
			err, isUnknown = nil, false
			out.KeyFrom = name
		}
	}
	if err == nil && commit != "" {
		err = isOfCommit(ctx, got, commit)
	}

	if err == nil && newer != "" {
		var more proof.Continued
		if more, out.Now, err = a.goesOn(ctx, raw, newer); err == nil {
			out.Newer = &more
		}
		if two, ok := errors.AsType[*proof.TwoHistories](err); ok {
			out.Notes = two.Notes[:]
		}
	}

	if err == nil || isUnknown {
		out.Report = &got
		out.Says = says(got)
	}
	out.Verified = err == nil
	if err != nil {
		out.Problem = err.Error()
	}
	return a.check(out.Verified, out, func(w io.Writer) { a.writeVerification(w, out) })
}

// maxAnswer is the most bytes of a checkpoint or a tile of a hub.
const maxAnswer = 64 << 10

// goesOn checks that the log of a hub goes on from a file. newer is the address of the hub, or the name
// of a file with a later checkpoint. With a key of the hub, it also returns what the hub says now.
func (a *app) goesOn(ctx context.Context, raw []byte, newer string) (more proof.Continued, now *proof.Report, err error) {
	var f proof.File
	if err := json.Unmarshal(raw, &f); err != nil {
		return more, nil, err
	}
	if !strings.Contains(newer, "://") {
		text, err := a.read(ctx, newer, proof.MaxFile, fmt.Errorf("%s has more than %d MB", newer, proof.MaxFile>>20))
		if err != nil {
			return more, nil, err
		}
		more, err = proof.ContinueTo(f, text)
		return more, nil, err
	}

	address := strings.TrimSuffix(newer, "/")
	note := ""
	present, err := a.presentFile(ctx, address, f)
	switch {
	case err != nil:
		return more, nil, err
	case present != nil:
		raw, err := json.Marshal(present)
		if err != nil {
			return more, nil, err
		}
		key, err := attest.ParseKey(f.Key)
		if err != nil {
			return more, nil, err
		}
		got, err := proof.Verify(raw, []attest.Key{key})
		if err != nil {
			return more, nil, fmt.Errorf("the hub's present file of %s: %w", f.Of, err)
		}
		note, now = present.Checkpoint, &got
	default:
		text, err := fetch(ctx, address, "/checkpoint")
		if err != nil {
			return more, nil, err
		}
		note = string(text)
	}
	more, err = proof.Continue(f, note, func(path string) ([]byte, error) { return fetch(ctx, address, "/tile/"+path) })
	return more, now, err
}

// presentFile asks the hub at an address for its present file of the same thing. It returns nil if the
// caller gave no key.
func (a *app) presentFile(ctx context.Context, address string, f proof.File) (*proof.File, error) {
	isGiven := a.keyFile != "" || a.asOperator || os.Getenv("PARLEY_KEY") != ""
	if !isGiven {
		return nil, nil
	}
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	client := rpc.NewClient(address, key, "", nil)
	if vault.IsOperatorSecret(key) {
		client = rpc.NewOperator("", address, key, "")
	}
	got, err := rpc.Call(ctx, client, api.Prove, api.ProveParams{ID: f.Of})
	if err != nil {
		return nil, err
	}
	if got.File.Of != f.Of {
		return nil, fmt.Errorf("the hub answers with a file of %.40q, and this one is of %.40q", got.File.Of, f.Of)
	}
	return &got.File, nil
}

// fetch reads a checkpoint or a tile of a hub.
func fetch(ctx context.Context, address, path string) ([]byte, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s for %s", address, res.Status, path)
	}
	return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
}

// repositoryHas reports whether .parley/keys in the repository around the working folder has a key:
// in the target branch of a landing, else in the commit that is checked out.
func (a *app) repositoryHas(ctx context.Context, got proof.Report, key attest.Key) bool {
	at := "HEAD"
	if e := got.Statements[0].Landing; e != nil {
		at = "refs/heads/" + e.Into
	}
	text, err := git.In(ctx, "git", ".", "cat-file", "blob", at+":.parley/keys").Output()
	if err != nil || len(text) > maxKeys {
		return false
	}
	keys, err := attest.ParseKeys(string(text))
	for _, k := range keys {
		if err == nil && k.Is(key) {
			return true
		}
	}
	return false
}

// peerWith names the witness of the caller's hub whose log has a key; "" if there is none, or if the caller
// gave no key of a hub.
func (a *app) peerWith(ctx context.Context, key attest.Key) string {
	isGiven := a.keyFile != "" || a.asOperator || os.Getenv("PARLEY_KEY") != ""
	if !isGiven {
		return ""
	}
	got, err := call(ctx, a, api.ListProofKeys, api.None{})
	if err != nil {
		return ""
	}
	if slices.Contains(got.Keys, key.Text) {
		return "your hub"
	}
	for _, w := range got.Witnesses {
		if slices.Contains(w.Keys, key.Text) {
			return "your hub's peer " + string(w.AID)
		}
	}
	return ""
}

// isOfCommit returns an error unless a file is about a commit, which git may know by another name.
func isOfCommit(ctx context.Context, got proof.Report, commit string) error {
	if got.IsOf(commit) {
		return nil
	}
	if id, err := git.In(ctx, "git", ".", "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}").Output(); err == nil {
		commit = strings.TrimSpace(string(id))
	}
	if got.IsOf(commit) {
		return nil
	}
	var about []string
	for _, c := range got.Commits() {
		about = append(about, shortCommit(c))
	}
	if len(about) == 0 {
		return fmt.Errorf("other commit: the file is about no commit, and you asked for %.60q", commit)
	}
	return fmt.Errorf("other commit: the file is about %s, and you asked for %.60q", hub.JoinWords(about), commit)
}

func (a *app) writeVerification(w io.Writer, out verification) {
	if out.Report != nil {
		fmt.Fprintf(w, "The hub %s says:\n", out.Report.Origin)
		for _, line := range out.Says {
			fmt.Fprintf(w, "  %s\n", plaintext.Line(line))
		}
		fmt.Fprintf(w, "as of row %d of its journal, %s; the file does not say what happened afterwards\n", out.Report.Rows, utc(out.Report.AsOf))
	}
	if out.Report != nil && len(out.Report.Cosigned) > 0 {
		fmt.Fprintf(w, "the checkpoint is cosigned by %s\n", hub.JoinWords(out.Report.Cosigned))
	}
	if out.Newer != nil {
		fmt.Fprintf(w, "the log of the hub goes on from the file: %s follow; this file does not say what is in them\n", counted(int(out.Newer.More), "row"))
	}
	if out.Now != nil {
		fmt.Fprintf(w, "as of row %d, %s, the hub says %s:\n", out.Now.Rows, utc(out.Now.AsOf), strings.ReplaceAll(out.Now.State, "_", " "))
		for _, line := range says(*out.Now) {
			fmt.Fprintf(w, "  %s\n", plaintext.Line(line))
		}
	}
	for _, note := range out.Notes {
		fmt.Fprintf(w, "%s\n", plaintext.Text(note))
	}
	if !out.Verified {
		fmt.Fprintf(w, "%s %s\n", a.paint(w, "31", "NOT VERIFIED:"), plaintext.Line(out.Problem))
		if out.Report != nil && strings.HasPrefix(out.Problem, "unknown key") {
			fmt.Fprintln(w, "All parts of the file fit together. Ask the hub's operator for its key (parley hub key), by a way that you trust, and add --key FILE.")
		}
		return
	}
	if strings.HasPrefix(out.KeyFrom, "your hub") {
		fmt.Fprintf(w, "key from %s\n", out.KeyFrom)
	}
	if out.KeyFrom == "this repository" {
		fmt.Fprintln(w, "key from this repository: it proves who keeps the repository, no more")
	}
	fmt.Fprintln(w, a.paint(w, "32", "verified"))
}

// utc returns a time as a stranger reads it.
func utc(t hub.Time) string { return t.Format("2 Jan 2006 15:04:05") + " UTC" }

// says returns the statements of a file as sentences.
func says(got proof.Report) (out []string) {
	var unchecked []string
	for _, s := range got.Statements {
		switch {
		case s.Landing != nil:
			out = append(out, landingSays(*s.Landing)...)
			unchecked = append(unchecked, s.Landing.NotAsked...)
		case s.Review != nil:
			out = append(out, reviewSays(*s.Review))
		case s.Check != nil:
			c := *s.Check
			out = append(out, fmt.Sprintf("check %s (%s) %s on commit %s (%s)", c.Name, strings.Join(c.Command, " "), strings.ReplaceAll(string(c.State), "_", " "), shortCommit(c.Commit),
				strings.Join(append([]string{string(c.ID)}, resultNotes(c)...), "; ")))
		case s.Handoff != nil:
			lines, not := handoffSays(*s.Handoff)
			out = append(out, lines...)
			unchecked = append(unchecked, not...)
		case s.Run != nil:
			out = append(out, fmt.Sprintf("run of %s, started by %s: %s", s.Run.Agent, s.Run.By, strings.TrimPrefix(runSentence(*s.Run), string(s.Run.ID)+" ")))
		case s.Decision != nil:
			out = append(out, fmt.Sprintf("decision %s, %s by %s: %q: %s", s.Decision.ID, s.Decision.Status, hub.JoinWords(s.Decision.Deciders), s.Decision.Title, s.Decision.Decision))
		case s.Contract != nil:
			out = append(out, contractSays(*s.Contract)...)
		case s.Message != nil:
			out = append(out, fmt.Sprintf("%s sent a message of type %s to %s on %s; the SHA-256 of its text is %s", s.By, s.Message.Type, hub.JoinWords(s.Message.To), utc(s.At), s.Message.Payload))
			if s.Message.Envelope != nil {
				out = append(out, "its text: "+string(s.Message.Envelope.Payload))
			}
		}
	}
	for _, text := range unchecked {
		out = append(out, "not checked: "+text)
	}
	for _, text := range got.LeftOut {
		out = append(out, "not in the file: "+text)
	}
	return out
}

// landingSays returns what the hub says about an entry of a landing queue.
func landingSays(e hub.LandingEntry) (out []string) {
	what := fmt.Sprintf("%s: commit %s of %s for %s", e.ID, shortCommit(e.Commit), e.Owner, e.Into)
	if e.Undoes != "" {
		what = fmt.Sprintf("%s: the undo of %s for %s", e.ID, e.Undoes, e.Into)
	}
	switch e.State {
	case hub.EntryLanded:
		what += fmt.Sprintf(" landed on %s as %s", utc(e.MovedAt), shortCommit(e.LandedCommit))
	case hub.EntryUndone:
		what += fmt.Sprintf(" landed as %s and is undone since %s", shortCommit(e.LandedCommit), utc(e.MovedAt))
		if e.UndoneBy != "" {
			what += fmt.Sprintf(", by %s", e.UndoneBy)
		}
		if e.Because != "" {
			what += ": " + e.Because
		}
	default:
		what += " is " + string(e.State)
		if e.Reason != "" {
			what += ": " + e.Reason
		}
	}
	out = append(out, what)
	for _, v := range e.Asked {
		out = append(out, fmt.Sprintf("asked: %s, %s by %s", v.What, v.Evidence, v.By))
	}
	for _, v := range e.Without {
		if v.Commit == e.Commit {
			out = append(out, fmt.Sprintf("%s let it land without %s: %s", v.By, v.What, v.Because))
		}
	}
	if e.TakesBack != "" {
		out = append(out, "it "+e.TakesBack)
	}
	return out
}

// contractSays returns what the hub says about the present version of a contract.
func contractSays(c coord.Contract) (out []string) {
	out = append(out, fmt.Sprintf("version %d of contract %s (%s, %s) was proposed by %s and is %s since %s", c.Version, c.Name, c.ID, c.Type, c.ProposedBy, strings.ReplaceAll(c.State(), "_", " "), c.UpdatedAt))
	for _, v := range c.Agreements {
		if v.Version == c.Version {
			out = append(out, fmt.Sprintf("%s agreed for repository %s on %s", v.Agent, v.Repo, v.At))
		}
	}
	for _, v := range c.Implementations {
		out = append(out, fmt.Sprintf("repository %s: %s", v.Repo, strings.ReplaceAll(string(v.Status), "_", " ")))
	}
	return append(out, "its content: "+string(c.Content))
}

// reviewSays returns what the hub says about a review.
func reviewSays(v hub.Review) string {
	who := v.Reviewer
	if v.By != "" {
		who = string(v.By)
	}
	switch v.State {
	case hub.ReviewStateApproved:
		return fmt.Sprintf("review %s: %s approved commit %s on %s", v.ID, who, shortCommit(v.Commit), utc(v.GivenAt))
	case hub.ReviewStateChanges:
		return fmt.Sprintf("review %s: %s wanted changes of commit %s on %s (%s)", v.ID, who, shortCommit(v.Commit), utc(v.GivenAt), counted(len(v.Findings), "finding"))
	}
	return fmt.Sprintf("review %s of commit %s by %s is %s and counts no more", v.ID, shortCommit(v.Commit), who, v.State)
}

// handoffSays returns what the hub says about a handoff, and what it did not check.
func handoffSays(h proof.Handoff) (out, unchecked []string) {
	out = append(out, fmt.Sprintf("task %s, %q, went from %s to %s", h.Task, h.Title, h.From, h.To))
	for _, s := range h.Steps {
		if s.State != hub.HandoffCompleted {
			out = append(out, fmt.Sprintf("the handoff was %s by %s on %s", s.State, s.Actor, utc(s.At)))
			continue
		}
		out = append(out, fmt.Sprintf("%s claimed that it is done on %s", s.Actor, utc(s.At)))
		for _, c := range s.Checks {
			if c.Change != nil && c.Change.Text != "" {
				saw := "the hub saw " + c.Change.Text
				if c.Change.Now.Commit != "" {
					saw += ", commit " + shortCommit(c.Change.Now.Commit)
				}
				out = append(out, saw)
				unchecked = append(unchecked, c.Change.Notes...)
			}
			if c.Result == hub.CheckVerified {
				continue
			}
			text := checkText(c)
			if c.Result == hub.CheckUnverifiable {
				unchecked = append(unchecked, text)
			} else {
				out = append(out, text)
			}
		}
	}
	if h.Proof != "" && h.Proof != hub.ProofNone {
		out = append(out, "proof of the work: "+string(h.Proof))
	}
	return out, unchecked
}
