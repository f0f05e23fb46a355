package proof

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
)

// A Witness is a peer. It and this hub cosign each other's checkpoints, as C2SP tlog-witness has it,
// if the operators of both allow it. So neither can show two histories of its log unnoticed.
type Witness struct {
	AID      coord.AID `json:"agentId"`
	Endpoint string    `json:"endpoint"`
	Keys     []string  `json:"keys"` // of its log when the operator added it, the newest first

	Seen     string `json:"seen,omitempty"`     // its newest checkpoint that this hub cosigned
	Cosigned int64  `json:"cosigned,omitempty"` // rows of the newest checkpoint of this hub that it cosigned
	Fault    string `json:"fault,omitempty"`    // why the last exchange failed
}

// witnessKey is where the witnesses are stored.
const witnessKey = "proof/witnesses"

const (
	cosignGap = time.Minute     // between two checkpoints that a witness cosigns
	callFor   = 5 * time.Second // a call to a witness
	maxKeys   = 16              // of one log
)

// Witnesses returns the witnesses in the order in which they were added.
func (l *Log) Witnesses(ctx context.Context) ([]Witness, error) {
	return hub.Read(ctx, l.store, func(r hub.Reader) ([]Witness, error) { return hub.ReadMeta[[]Witness](r, witnessKey) })
}

// AddWitness makes a peer a witness, with the keys that its hub serves now.
func (l *Log) AddWitness(ctx context.Context, caller hub.Caller, aid coord.AID) (Witness, error) {
	const op = "proof.AddWitness"
	if err := caller.OperatorOnly(op); err != nil {
		return Witness{}, err
	}
	p, err := hub.Read(ctx, l.store, func(r hub.Reader) (hub.Peer, error) { return r.Peer(aid) })
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && p.State != hub.PeerApproved) {
		return Witness{}, hub.Errorf(hub.CodeNotFound, op, "%s is not an approved peer", aid).WithHint("add it with its address: parley peer add %s --endpoint URL --witness", aid)
	}
	if err != nil {
		return Witness{}, err
	}
	status, text, err := l.call(ctx, http.MethodGet, p.Endpoint+"/.well-known/parley-keys", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("it answered with status %d", status)
	}
	if err != nil {
		return Witness{}, hub.Errorf(hub.CodeUnreachable, op, "cannot get the key of the log of %s: %w", aid, err)
	}
	keys, err := attest.ParseKeys(text)
	if err != nil || len(keys) == 0 || len(keys) > maxKeys {
		return Witness{}, hub.Errorf(hub.CodeInvalid, op, "%s has no log that can be cosigned", aid)
	}

	w := Witness{AID: p.AID, Endpoint: p.Endpoint}
	for _, k := range keys {
		w.Keys = append(w.Keys, k.Text)
	}
	err = l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[[]Witness](tx, witnessKey)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(x Witness) bool { return x.AID.Same(w.AID) })
		if i < 0 {
			all = append(all, w)
		} else {
			if all[i].Keys[0] == w.Keys[0] {
				w.Seen, w.Cosigned = all[i].Seen, all[i].Cosigned
			}
			all[i] = w
		}
		if err := hub.WriteMeta(tx, witnessKey, all); err != nil {
			return err
		}
		_, err = tx.Append(caller.Entry(hub.At(l.o.Clock()), actions.LogWitness, string(w.AID), map[string]any{"endpoint": w.Endpoint, "keys": w.Keys}))
		return err
	})
	return w, err
}

// call calls another hub.
func (l *Log) call(ctx context.Context, method, address, body string) (int, string, error) {
	if l.o.Call == nil {
		return 0, "", errors.New("this hub calls no other hubs")
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	status, answer, err := l.o.Call(ctx, method, address, []byte(body))
	return status, string(answer), err
}

// change changes a stored witness.
func (l *Log) change(ctx context.Context, aid coord.AID, to func(tx hub.Tx, w *Witness) error) error {
	return l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[[]Witness](tx, witnessKey)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(x Witness) bool { return x.AID.Same(aid) })
		if i < 0 {
			return hub.Errorf(hub.CodeNotFound, "proof.Witness", "%s is no witness", aid)
		}
		if err := to(tx, &all[i]); err != nil {
			return err
		}
		return hub.WriteMeta(tx, witnessKey, all)
	})
}

// keyOf returns the key of a witness's log with a name.
func (w Witness) keyOf(origin string) (attest.Key, bool) {
	for _, text := range w.Keys {
		if k, err := attest.ParseKey(text); err == nil && k.Name == origin {
			return k, true
		}
	}
	return attest.Key{}, false
}

// Cosign answers the request of another hub to cosign a checkpoint: with a cosignature and the status
// 200, or with the status of C2SP tlog-witness and a text. It cosigns only logs of witnesses, and only
// checkpoints that continue the last one.
func (l *Log) Cosign(ctx context.Context, request string) (status int, text string, err error) {
	g, err := attest.ParseGrowing(request)
	if err != nil {
		return http.StatusBadRequest, err.Error(), nil
	}
	signer, err := l.sign(ctx)
	if err != nil {
		return 0, "", err
	}
	c, err := readNote(g.Note)
	if err != nil {
		return http.StatusBadRequest, err.Error(), nil
	}
	all, err := l.Witnesses(ctx)
	if err != nil {
		return 0, "", err
	}
	i := slices.IndexFunc(all, func(w Witness) bool { _, known := w.keyOf(c.Origin); return known })
	if i < 0 {
		return http.StatusNotFound, "this hub is no witness of that log", nil
	}
	key, _ := all[i].keyOf(c.Origin)
	if _, err := key.OpenCheckpoint(g.Note); err != nil {
		return http.StatusForbidden, "the checkpoint is not signed by the key of that log", nil
	}

	own := key.Own(g.Note)
	contradicts := false
	err = l.change(ctx, all[i].AID, func(_ hub.Tx, w *Witness) error {
		status, text, contradicts = w.judge(g, c)
		if status != http.StatusOK {
			return nil
		}
		w.Seen = own
		text, err = signer.Cosign(own, l.o.Clock())
		return err
	})
	if err == nil && contradicts {
		l.accuse(ctx, all[i].AID, key, own)
	}
	return status, text, err
}

// judge returns the status of C2SP tlog-witness for a checkpoint of the witness's log, and whether it seems
// to contradict the last one.
func (w Witness) judge(g attest.Growing, c attest.Checkpoint) (status int, text string, contradicts bool) {
	var seen attest.Checkpoint
	if before, err := readNote(w.Seen); err == nil && before.Origin == c.Origin {
		seen = before
	}
	isFirst := seen.Size == 0
	switch {
	case g.Old > c.Size:
		return http.StatusBadRequest, "the old size is larger than the checkpoint", false
	case g.Old != seen.Size:
		return http.StatusConflict, strconv.FormatInt(seen.Size, 10), false
	case isFirst && len(g.Proof) > 0:
		return http.StatusUnprocessableEntity, "the first checkpoint has no proof", false
	case isFirst:
		return http.StatusOK, "", false
	case seen.Size == c.Size && seen.Root != c.Root:
		return http.StatusConflict, strconv.FormatInt(seen.Size, 10), true
	case attest.CheckGrowth(g.Proof, c, seen) != nil:
		return http.StatusUnprocessableEntity, "the proof does not lead from the last checkpoint to this one", true
	}
	return http.StatusOK, "", false
}

// accuse tells the operator that a witness's log has two histories, if it has. The hub reads the tiles of
// the other log itself: a false proof can be sent by anyone.
func (l *Log) accuse(ctx context.Context, aid coord.AID, key attest.Key, note string) {
	all, err := l.Witnesses(ctx)
	i := slices.IndexFunc(all, func(w Witness) bool { return w.AID.Same(aid) })
	if err != nil || i < 0 || all[i].Seen == "" {
		return
	}
	w := all[i]
	_, err = Continue(File{Key: key.Text, Checkpoint: w.Seen}, note, func(path string) ([]byte, error) {
		status, text, err := l.call(ctx, http.MethodGet, w.Endpoint+"/tile/"+path, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return []byte(text), err
	})
	two, ok := errors.AsType[*TwoHistories](err)
	if !ok {
		return
	}
	text := fmt.Sprintf("%s shows two histories of its log: two of its checkpoints contradict each other, and both are signed by it. They are the proof:\n\n%s\n%s", w.AID, two.Notes[0], two.Notes[1])
	if w.Fault == text {
		return
	}
	err = l.change(ctx, aid, func(_ hub.Tx, w *Witness) error { w.Fault = text; return nil })
	l.o.Log.Error("a witness shows two histories of its log", "op", "proof.Cosign", "peer", w.AID, "err", err)
	l.tell(ctx, text)
}

// Seen returns the newest checkpoint of a log that this hub cosigned.
func (l *Log) Seen(ctx context.Context, origin string) (string, error) {
	all, err := l.Witnesses(ctx)
	for _, w := range all {
		if c, err := readNote(w.Seen); err == nil && c.Origin == origin {
			return w.Seen, nil
		}
	}
	if err == nil {
		err = hub.Errorf(hub.CodeNotFound, "proof.Seen", "this hub has cosigned no checkpoint of that log")
	}
	return "", err
}

// RunWitnesses asks the witnesses to cosign the newest checkpoint, each minute, until ctx ends.
func (l *Log) RunWitnesses(ctx context.Context) {
	hub.Follow(ctx, l.store, nil, hub.Consumer{
		Name: "proof.witnesses", Lease: growFor,
		Step:   func(ctx context.Context, _ hub.Store) (time.Duration, error) { return cosignGap, l.AskWitnesses(ctx) },
		Failed: func(err error) { l.o.Log.Warn("cannot ask the witnesses", "op", "proof.RunWitnesses", "err", err) },
	})
}

// AskWitnesses asks each witness to cosign the newest checkpoint.
func (l *Log) AskWitnesses(ctx context.Context) error {
	all, err := l.Witnesses(ctx)
	if err != nil || len(all) == 0 || l.Stopped() != nil {
		return err
	}
	for _, w := range all {
		fault := ""
		if err := l.ask(ctx, w); err != nil {
			fault = err.Error()
			l.o.Log.Warn("a witness did not cosign", "op", "proof.AskWitnesses", "peer", w.AID, "err", err)
		}
		isKept := fault == w.Fault || strings.Contains(w.Fault, "two histories")
		if isKept {
			continue
		}
		if err := l.change(ctx, w.AID, func(_ hub.Tx, w *Witness) error { w.Fault = fault; return nil }); err != nil {
			return err
		}
	}
	return nil
}

// ask asks one witness. It knows best which checkpoint it saw last, so it is asked again if this hub
// was wrong about that.
func (l *Log) ask(ctx context.Context, w Witness) error {
	old := w.Cosigned
	for range 2 {
		g, err := l.Since(ctx, old)
		if hub.CodeOf(err) == hub.CodeNotFound && old > 0 {
			old = 0
			g, err = l.Since(ctx, old)
		}
		if err != nil {
			return err
		}
		status, text, err := l.call(ctx, http.MethodPost, w.Endpoint+"/add-checkpoint", g.String())
		if err != nil {
			return err
		}
		size, notSize := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		isBehind := status == http.StatusConflict && notSize == nil && size != old
		switch {
		case status == http.StatusOK:
			return l.keepCosignature(ctx, w, g.Note, text)
		case isBehind && l.has(ctx, size):
			old = size
			continue
		case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
			if err := l.compare(ctx, w); err != nil {
				l.failed(ctx, err)
				return err
			}
		}
		return fmt.Errorf("it answered with status %d: %.200s", status, text)
	}
	return errors.New("it names another last checkpoint each time")
}

// has reports whether the newest checkpoint has a number of rows.
func (l *Log) has(ctx context.Context, size int64) bool {
	newest, err := l.Newest(ctx)
	return err == nil && size >= 0 && size <= newest.Size
}

// keepCosignature stores a checkpoint with the line of a witness.
func (l *Log) keepCosignature(ctx context.Context, w Witness, note, line string) error {
	c, err := readNote(note)
	if err != nil {
		return err
	}
	isOne := strings.Count(line, "\n") == 1 && strings.HasSuffix(line, "\n")
	signed := note + line
	isKnown := slices.ContainsFunc(w.Keys, func(text string) bool {
		k, err := attest.ParseKey(text)
		_, ok := k.Cosigned(signed)
		return err == nil && ok
	})
	if !isOne || !isKnown {
		return errors.New("its answer is not a cosignature by its key")
	}
	return l.change(ctx, w.AID, func(tx hub.Tx, w *Witness) error {
		stored, err := tx.Tree().Checkpoint(c.Size)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		if stored.Size != c.Size { // a newer one of the same minute replaced it
			stored = hub.Checkpoint{Size: c.Size, At: hub.At(l.o.Clock()), Note: note}
		}
		if !strings.Contains(stored.Note, line) {
			stored.Note += line
		}
		w.Cosigned = c.Size
		return tx.WriteTree().PutCheckpoint(stored)
	})
}

// compareAll compares the journal with the checkpoints that the witnesses saw, at the start of a hub. A
// witness that does not answer is asked later, when it is to cosign.
func (l *Log) compareAll(ctx context.Context) error {
	all, err := l.Witnesses(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		err := l.compare(ctx, w)
		if isBroken(err) {
			return err
		}
		if err != nil {
			l.o.Log.Warn("cannot compare the journal with the checkpoint of a witness", "op", "proof.Run", "peer", w.AID, "err", err)
		}
	}
	return nil
}

// compare compares the journal with the checkpoint of this log that a witness saw. If they contradict each
// other, the log signs no more until the operator begins a new one.
func (l *Log) compare(ctx context.Context, w Witness) error {
	signer, err := l.sign(ctx)
	if err != nil {
		return err
	}
	status, note, err := l.call(ctx, http.MethodGet, w.Endpoint+"/witnessed?log="+url.QueryEscape(signer.Key.Name), "")
	if err != nil || status != http.StatusOK {
		return err
	}
	seen, err := signer.Key.OpenCheckpoint(note)
	if err != nil {
		return fmt.Errorf("%s shows a checkpoint that this log did not sign", w.AID)
	}

	problem := ""
	err = l.store.View(ctx, func(r hub.Reader) error {
		head, err := hub.HeadOf(r)
		if err != nil {
			return err
		}
		if seen.Size > head.Seq {
			problem = fmt.Sprintf("%s has a checkpoint of this log that ends at row %d, and the journal ends at row %d: it was restored from an older backup. The checkpoint:\n\n%s", w.AID, seen.Size, head.Seq, note)
			return nil
		}
		size, err := r.Cursor(Cursor)
		if err != nil || size < seen.Size {
			return err
		}
		root, err := attest.Root(seen.Size, tilesOf(r))
		if err != nil || root == seen.Root {
			return err
		}
		last, err := r.Tree().Checkpoints(0, true, 1)
		if err == nil && len(last) > 0 {
			problem = fmt.Sprintf("this log has two histories: %s has a checkpoint of row %d that the journal contradicts. Both are signed by this hub:\n\n%s\n%s", w.AID, seen.Size, note, last[0].Note)
		}
		return err
	})
	if err != nil || problem == "" {
		return err
	}
	err = l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		who, err := hub.ReadMeta[identity](tx, logKey)
		if err != nil || who.name() != signer.Key.Name {
			return err
		}
		who.Contradicted = problem
		return hub.WriteMeta(tx, logKey, who)
	})
	if err != nil {
		return err
	}
	return &broken{text: problem, ends: true}
}
