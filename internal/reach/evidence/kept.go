package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// The states of a handoff that are kept.
const (
	stateAccepted  = "accepted"
	stateCompleted = "completed"
)

// How long states are kept, and how much of them.
const (
	keepCompleted = 30 * 24 * time.Hour  // since the completion
	keepAccepted  = 365 * 24 * time.Hour // since the acceptance of a task that is not completed
	keepBytes     = 1 << 30              // of all handoffs in one repository
)

// A keptWork holds the states of the working tree of one handoff, in the home of the hub: a
// small repository with the objects that the commit of the acceptance does not have, and
// for each state a file with the commits that existed. So nothing that happens to the
// user's repository takes the work away, and a handoff is forgotten with its folder.
type keptWork struct {
	*scratch
	id hub.HandoffID
}

// openKept returns the kept work of a handoff, and makes its folder if there is none.
func (in *Inspector) openKept(w *workTree, id hub.HandoffID) (*keptWork, error) {
	const op = "evidence.State"
	if in.kept == "" {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not keep states of working trees")
	}
	if !id.Valid() {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%s is not a valid handoff id", show(string(id)))
	}
	dir := filepath.Join(in.kept, keptFolder(w.repo), string(id))
	k := &keptWork{scratch: &scratch{git: in.git, dir: dir, objects: w.scratch.objects}, id: id}
	k.lenders = []string{filepath.Join(w.scratch.gitDir(), "objects")}
	if _, err := os.Stat(k.gitDir()); errors.Is(err, fs.ErrNotExist) {
		if err := k.lay(w.format, map[string][]byte{}); err != nil {
			return nil, explain(dir, err)
		}
		k.tree.Close()
		k.tree = nil
	}
	return k, nil
}

// keptFolder names the folder of all kept states of a repository.
func keptFolder(r *repository) string {
	sum := sha256.Sum256([]byte(realPath(r.common.Name())))
	return hex.EncodeToString(sum[:8])
}

// realPath returns a path without links, so that one folder has one name.
func realPath(name string) string {
	name = filepath.Clean(name)
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}

func (k *keptWork) name(state string) string { return string(k.id) + "/" + state }

// keptState cuts the name of a state into the handoff and the word.
func keptState(name string) (id hub.HandoffID, state string, ok bool) {
	before, state, found := strings.Cut(name, "/")
	id = hub.HandoffID(before)
	return id, state, found && id.Valid() && (state == stateAccepted || state == stateCompleted)
}

// tipsFile is the file with the commits that existed at a state.
func (k *keptWork) tipsFile(state string) string { return filepath.Join(k.dir, state) }

// keep stores the files of now, except those of known, and the commits that exist now.
// A tree that does not fit is kept by its name alone.
func (k *keptWork) keep(ctx context.Context, w *workTree, state string, known fileList) error {
	if err := k.keepFiles(w, known); err != nil {
		return err
	}
	tips, err := w.repo.tips(ctx)
	if err != nil && hub.CodeOf(err) != hub.CodeTooLarge { // then no list of them is kept
		return err
	}
	if err == nil {
		tips = append(tips, w.repo.logged()...)
	}
	slices.Sort(tips)
	return os.WriteFile(k.tipsFile(state), []byte(strings.Join(slices.Compact(tips), "\n")+"\n"), 0o600)
}

// keepFiles writes the files and folders of now that known does not have.
func (k *keptWork) keepFiles(w *workTree, known fileList) error {
	o := &objectWriter{scratch: k.scratch, format: w.format, room: keepRoom}
	for name := range w.files.differing(known) {
		b, ok := w.files.entries[name]
		if !ok || b.mode == modeSubmodule {
			continue
		}
		content, err := w.content(name)
		if err != nil || hashOf(w.format, "blob", content) != b.id {
			continue // it is too large, or was changed meanwhile
		}
		o.add(b.id, content)
	}
	if known.folders[w.files.tree] {
		return nil
	}
	_, err := treeOf(w.files.entries, func(kind string, content []byte) (string, error) {
		if id := hashOf(w.format, kind, content); known.folders[id] {
			return id, nil
		}
		return o.put(kind, content)
	})
	return err
}

// content returns the content of a file, or the target of a link, of at most maxKept bytes.
func (w *workTree) content(name string) ([]byte, error) {
	if w.files.entries[name].mode == modeLink {
		to, err := w.repo.tree.Readlink(name)
		return []byte(to), err
	}
	return readSmall(w.repo.tree, name, maxKept)
}

// tips returns the commits that existed at a state, and when it was recorded by the clock of
// the files. It reports CodeNotFound if the state is not kept any more.
func (k *keptWork) tips(state string) (tips []string, at time.Time, err error) {
	name := k.tipsFile(state)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, at, explain(name, err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, at, explain(name, err)
	}
	tips = strings.Fields(string(b))
	if !slices.ContainsFunc(tips, func(id string) bool { return !objectID(id) }) {
		return tips, info.ModTime(), nil
	}
	return nil, at, hub.Errorf(hub.CodeDegraded, "evidence.State", "%s was changed", show(name))
}

// A keptEntry is the folder of one handoff, for the sweep.
type keptEntry struct {
	dir       string
	size      int64
	completed bool
	at        time.Time // of the newest state
}

// Sweep removes kept states: those of completed handoffs after 30 days, those of others
// after a year, and the oldest of a repository beyond 1 GiB. Only their names remain, in
// the history of the handoffs.
func (in *Inspector) Sweep(now time.Time) error {
	if in.kept == "" {
		return nil
	}
	repositories, err := os.ReadDir(in.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, folder := range repositories {
		errs = append(errs, sweepRepository(filepath.Join(in.kept, folder.Name()), now))
	}
	return errors.Join(errs...)
}

func sweepRepository(dir string, now time.Time) error {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var all []keptEntry
	for _, folder := range folders {
		all = append(all, readKeptEntry(filepath.Join(dir, folder.Name())))
	}
	slices.SortFunc(all, func(a, b keptEntry) int { return b.at.Compare(a.at) }) // newest first
	var errs []error
	var size int64
	for _, e := range all {
		age := keepAccepted
		if e.completed {
			age = keepCompleted
		}
		if size += e.size; size > keepBytes || now.Sub(e.at) > age {
			size -= e.size
			errs = append(errs, os.RemoveAll(e.dir))
		}
	}
	return errors.Join(errs...)
}

func readKeptEntry(dir string) keptEntry {
	e := keptEntry{dir: dir}
	for _, state := range []string{stateAccepted, stateCompleted} {
		if info, err := os.Stat(filepath.Join(dir, state)); err == nil {
			e.completed = e.completed || state == stateCompleted
			e.at = slices.MaxFunc([]time.Time{e.at, info.ModTime()}, time.Time.Compare)
		}
	}
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error { // what cannot be read has no size
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			e.size += info.Size()
			if e.at.IsZero() { // no state was recorded: a hub was killed meanwhile
				e.at = info.ModTime()
			}
		}
		return nil
	})
	return e
}

// sweepEvery is the time between two sweeps.
const sweepEvery = time.Hour

// Run sweeps the kept states now and every hour, until ctx ends.
func (in *Inspector) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		in.Sweep(time.Now()) // a folder that cannot be removed is tried again
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
