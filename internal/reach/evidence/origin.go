package evidence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/diff3"
)

// Limits of the history that is compared.
const (
	maxHistory   = 32 << 20 // bytes that git writes about commits and their files
	maxVersions  = 8        // versions of a file, before and after commits, that are merged with each other
	maxElsewhere = 50       // tasks of other agents whose commits are looked for
)

// An author is the author of a commit, as the commit has it: the word of its maker.
type author struct{ name, email string }

// is reports whether the author has the name of an agent: as the name, as the address, or as
// the part of the address before the @.
func (a author) is(agent hub.AgentID) bool {
	local, _, _ := strings.Cut(a.email, "@")
	for _, name := range []string{a.name, a.email, local} {
		if strings.EqualFold(name, string(agent)) {
			return true
		}
	}
	return false
}

func (a author) String() string { return fmt.Sprintf("%s <%s>", a.name, a.email) }

// A loggedCommit is a commit with the files that it changed.
type loggedCommit struct {
	id     string
	author author
	at     time.Time // of the committer
	files  []version
}

// A version is the change of one file by a commit.
type version struct {
	name    string
	was, is string // names of contents; empty if the file was not there, or is not
	commit  string
}

// origins finds out which files a commit from before has like this, and which authors
// committed the others.
func (r *changeReader) origins(ctx context.Context) error {
	if len(r.files) == 0 {
		return nil
	}
	if err := r.convert(ctx); err != nil {
		return err
	}

	fresh, old, err := r.commits(ctx)
	if err != nil {
		return err
	}
	touched := map[string][]author{}
	for _, c := range fresh {
		for _, v := range c.files {
			touched[v.name] = append(touched[v.name], c.author)
		}
	}
	versions := map[string][]version{}
	for _, c := range old {
		for _, v := range c.files {
			versions[v.name] = append(versions[v.name], v)
		}
	}

	// A file is old if it is as in the commit and no new commit touched it.
	for _, f := range r.files {
		f.authors = append(touched[f.name], touched[f.from]...)
		f.old = r.w.committed.entries[f.name] == f.is && len(f.authors) == 0
	}
	if err := r.compareVersions(ctx, versions); err != nil {
		return err
	}
	r.judgeDeletions(versions)
	return nil
}

// convert finds the files that the commit has in another form only because git converts
// them: their line ends, or by a filter that is not run here.
func (r *changeReader) convert(ctx context.Context) error {
	var names []string
	for _, f := range r.files {
		committed, ok := r.w.committed.entries[f.name]
		isFile := f.is.mode == modeRegular || f.is.mode == modeExecutable
		mayBeConverted := f.uncommitted && ok && isFile && committed.mode == f.is.mode && committed != f.was
		if !mayBeConverted {
			continue
		}
		same, err := sameLines(r.w.repo.tree, f.name, committed.id)
		if err != nil {
			return explain(f.name, err)
		}
		if f.uncommitted = !same; !same {
			names = append(names, f.name)
		}
	}
	converted, err := r.w.scratch.converted(ctx, names)
	for _, f := range r.files {
		f.uncommitted = f.uncommitted && !converted[f.name]
	}
	return err
}

// commits returns the new commits in the history of the one that is checked out, and the
// commits from before that the earlier state did not have, each with the changed files
// among r.files. It counts them, too.
func (r *changeReader) commits(ctx context.Context) (fresh, old []loggedCommit, err error) {
	var names []string
	for _, f := range r.files {
		names = append(names, f.name)
		if f.from != "" {
			names = append(names, f.from)
		}
	}
	base := r.q.Since.Commit
	if r.w.head != base && r.w.head != "" {
		if fresh, err = r.w.scratch.log(ctx, []string{r.w.head}, r.tips, names); err != nil {
			return nil, nil, err
		}
		pulled, err := r.pulled(ctx)
		if err != nil {
			return nil, nil, err
		}

		// A commit that was pulled and is older than the earlier state counts as old.
		for _, c := range fresh {
			if pulled[c.id] && c.at.Before(r.before) {
				old = append(old, c)
			}
		}
		fresh = slices.DeleteFunc(fresh, func(c loggedCommit) bool { return pulled[c.id] && c.at.Before(r.before) })
		if err := r.countCommits(ctx, len(old)); err != nil {
			return nil, nil, err
		}
	}

	// Commits of other branches existed before, too. If they cannot be listed, that is noted.
	others := slices.DeleteFunc(slices.Clone(r.tips), func(id string) bool { return id == base })
	if len(others) == 0 {
		return fresh, old, nil
	}
	more, err := r.w.scratch.log(ctx, others, []string{base}, names)
	var exit *exitError
	switch {
	case hub.CodeOf(err) == hub.CodeTooLarge:
		r.change.NotCompared, err = "they have too many commits", nil
	case errors.As(err, &exit):
		r.change.NotCompared, err = "their commits cannot be read", nil
	}
	return fresh, append(old, more...), err
}

// pulled returns the commits that came from another repository since the earlier state.
func (r *changeReader) pulled(ctx context.Context) (map[string]bool, error) {
	remote, err := r.w.repo.fetched(ctx)
	if err != nil {
		return nil, err
	}
	remote = slices.DeleteFunc(remote, func(id string) bool { return slices.Contains(r.tips, id) })
	out := map[string]bool{}
	if len(remote) == 0 {
		return out, nil
	}
	text, err := r.w.scratch.run(ctx, maxHistory, revisions(remote, r.tips), "rev-list", "--ignore-missing", "--stdin")
	for id := range strings.FieldsSeq(text) {
		out[id] = true
	}
	return out, err
}

// countCommits counts the commits since the earlier state in the history of the one that is
// checked out; pulled of the new ones are from before. Among the new ones it looks for those
// of other agents.
func (r *changeReader) countCommits(ctx context.Context, pulled int) error {
	out, err := r.w.scratch.run(ctx, maxOutput, revisions([]string{r.w.head}, []string{r.q.Since.Commit}), "rev-list", "--ignore-missing", "--count", "--stdin")
	if err != nil {
		return err
	}
	all, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return err
	}
	fresh, err := r.w.scratch.commitNames(ctx, r.w.head, r.tips)
	if err != nil {
		return err
	}
	r.change.Commits, r.change.OldCommits = all, max(0, all-len(fresh)+pulled)
	return r.findMerged(ctx, fresh)
}

// commitNames returns the commits that can be reached from one and not from others.
func (s *scratch) commitNames(ctx context.Context, head string, without []string, more ...string) ([]string, error) {
	out, err := s.run(ctx, maxHistory, revisions([]string{head}, without), append([]string{"rev-list", "--ignore-missing", "--stdin"}, more...)...)
	return strings.Fields(out), err
}

// findMerged finds the tasks of other agents in other working trees whose commits are among
// new ones. Only the first parents of their commits count: the others came there by a merge,
// perhaps of the work that is compared.
func (r *changeReader) findMerged(ctx context.Context, fresh []string) error {
	if len(fresh) == 0 || len(r.q.Elsewhere) == 0 {
		return nil
	}
	isFresh := map[string]bool{}
	for _, id := range fresh {
		isFresh[id] = true
	}
	for _, task := range r.q.Elsewhere[:min(len(r.q.Elsewhere), maxElsewhere)] {
		commit := cmp.Or(task.Commit, r.w.repo.headOf(task.Path))
		if !objectID(commit) {
			continue
		}
		theirs, err := r.w.scratch.commitNames(ctx, commit, r.tips, "--first-parent")
		if err != nil {
			return err
		}
		if slices.ContainsFunc(theirs, func(id string) bool { return isFresh[id] }) {
			r.change.Merged = append(r.change.Merged, hub.Credit{Agent: task.Agent, Why: "commits of " + task.Name})
		}
	}
	return nil
}

const (
	maxBranches      = 100 // in which a change from before is looked for
	maxNamedBranches = 3
)

// findBranches names the other branches, and the known commits, that have all of a change that is
// from before. It costs a call of git for each branch, and only a change that will be refused is looked
// for.
func (r *changeReader) findBranches(ctx context.Context) error {
	origins := map[string]bool{}
	for _, f := range r.files {
		origins[f.origin] = true
	}
	if c := r.change; c.Files > 0 || c.Before == 0 || origins[""] {
		return nil
	}
	hasAll := func(tip string) (bool, error) {
		for commit := range origins {
			if has, err := r.w.scratch.reachable(ctx, commit, []string{tip}); err != nil || !has {
				return false, err
			}
		}
		return true, nil
	}

	for _, commit := range r.q.Known {
		has, err := hasAll(commit)
		if err != nil {
			return err
		}
		if has {
			r.change.Known = append(r.change.Known, commit)
		}
	}
	head, err := r.w.repo.resolve("HEAD")
	if err != nil {
		return nil // without a commit there is no branch to compare with
	}
	names, err := r.w.repo.branches(ctx)
	if err != nil {
		return err
	}
	for _, name := range names[:min(len(names), maxBranches)] {
		tip, err := r.w.repo.resolve(name)
		if err != nil || name == head.name || len(r.change.Branches) == maxNamedBranches {
			continue
		}
		has, err := hasAll(tip.id)
		if err != nil {
			return err
		}
		if has {
			r.change.Branches = append(r.change.Branches, strings.TrimPrefix(name, branchPrefix))
		}
	}
	return nil
}

// revisions returns the input of git for the commits that can be reached from some and not
// from others.
func revisions(from, without []string) string {
	var b strings.Builder
	for _, id := range from {
		b.WriteString(id + "\n")
	}
	for _, id := range without {
		if id != "" {
			b.WriteString("^" + id + "\n")
		}
	}
	return b.String()
}

// log returns the commits that can be reached from some and not from others and that change
// one of the files. Of a merge the files count that are in none of its parents like this.
func (s *scratch) log(ctx context.Context, from, without, names []string) ([]loggedCommit, error) {
	input := revisions(from, without) + "--\n"
	for _, name := range names {
		if !strings.Contains(name, "\n") {
			input += name + "\n"
		}
	}

	tokens, err := s.list(ctx, input, "--literal-pathspecs", "log", "--stdin", "--ignore-missing", "-c", "--root", "--raw", "-z", "--no-abbrev",
		"--no-renames", "--full-history", "--no-ext-diff", "--no-textconv", "--format=%x01%H%x00%an%x00%ae%x00%ct")
	if err != nil {
		return nil, err
	}

	// Git prints four tokens for each commit, and then two for each of its files.
	var all []loggedCommit
	for len(tokens) > 0 {
		token := strings.TrimPrefix(tokens[0], "\n")
		id, begins := strings.CutPrefix(token, "\x01")
		switch {
		case begins && len(tokens) >= 4:
			seconds, err := strconv.ParseInt(tokens[3], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("evidence: git shows a commit as %s", show(token))
			}
			all = append(all, loggedCommit{id: id, author: author{tokens[1], tokens[2]}, at: time.Unix(seconds, 0)})
			tokens = tokens[4:]
		case strings.HasPrefix(token, ":") && len(tokens) >= 2 && len(all) > 0:
			last := &all[len(all)-1]
			last.files = append(last.files, versionsOf(token, tokens[1], last.id)...)
			tokens = tokens[2:]
		case token == "":
			tokens = tokens[1:]
		default:
			return nil, fmt.Errorf("evidence: git shows a commit as %s", show(token))
		}
	}
	return all, nil
}

// versionsOf reads the entry of a file in git's raw output: one version, of a merge one for
// each parent. An entry has a colon for each parent, then the modes of the parents and of
// the result, then the contents likewise.
func versionsOf(entry, name, commit string) (out []version) {
	parents := len(entry) - len(strings.TrimLeft(entry, ":"))
	words := strings.Fields(entry[parents:])
	if len(words) < 2*(parents+1) {
		return nil
	}
	id := func(s string) string {
		if strings.Trim(s, "0") == "" {
			return ""
		}
		return s
	}
	contents := words[parents+1:]
	for _, was := range contents[:parents] {
		out = append(out, version{name, id(was), id(contents[parents]), commit})
	}
	return out
}

// compareVersions compares each file that a new commit or the working tree changed with its
// versions in commits from before: with those, and with what a merge of one of their
// changes makes of the earlier state. A file that differs from one of them in whitespace
// alone is theirs. Of another the nearest one counts as its version before.
func (r *changeReader) compareVersions(ctx context.Context, versions map[string][]version) error {
	files := r.unlikeVersions(versions)
	contents, err := r.versionContents(ctx, files, versions)
	if err != nil {
		return err
	}

	o := &objectWriter{scratch: r.git.scratch, format: r.w.format, room: keepRoom}
	for _, f := range files {
		is, err := readSmall(r.w.repo.tree, f.name, maxContent)
		if err != nil || bytes.IndexByte(is, 0) >= 0 {
			continue // it is compared by its name alone
		}
		was, known := contents[f.was.id]
		texts, err := candidates(ctx, was, versions[f.name], contents)
		if err != nil {
			return err
		}

		// The nearest version counts only if it is nearer than the earlier state.
		text, distance := nearest(is, texts)
		switch {
		case text == nil || (known && distance >= lineDistance(was, is)):
		case bytes.Equal(squeeze(text), squeeze(is)):
			f.old = true
		default:
			if id := hashOf(r.w.format, "blob", text); o.add(id, text) {
				f.nearest = blob{f.is.mode, id}
			}
		}
	}
	return nil
}

// unlikeVersions returns the files with versions from before whose content none of them has.
// A file whose content one of them has is marked as old.
func (r *changeReader) unlikeVersions(versions map[string][]version) (out []*changedFile) {
	for _, f := range r.files {
		all := versions[f.name]
		if f.deleted() || len(all) == 0 {
			continue
		}
		at := slices.IndexFunc(all, func(v version) bool { return v.is == f.is.id })
		switch {
		case at >= 0:
			f.old = true
			f.origin = all[at].commit
		case !f.old:
			out = append(out, f)
		}
	}
	return out
}

// versionContents returns the contents, by their ids, that files had in the earlier state
// and that their versions have.
func (r *changeReader) versionContents(ctx context.Context, files []*changedFile, versions map[string][]version) (map[string][]byte, error) {
	var ids []string
	for _, f := range files {
		ids = append(ids, f.was.id)
		for _, v := range versions[f.name] {
			ids = append(ids, v.was, v.is)
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	return r.git.contents(ctx, slices.Compact(slices.Sorted(slices.Values(ids))))
}

// candidates returns the contents that commits from before give a file: their own, and those
// that a merge of a change of theirs into the earlier content has.
func candidates(ctx context.Context, was []byte, all []version, contents map[string][]byte) ([][]byte, error) {
	before, after := map[string]bool{}, map[string]bool{}
	for _, v := range all {
		if len(after) < maxVersions && contents[v.is] != nil {
			after[v.is] = true
		}
		if len(before) < maxVersions && contents[v.was] != nil {
			before[v.was] = true
		}
	}
	var out [][]byte
	for _, is := range slices.Sorted(maps.Keys(after)) {
		out = append(out, contents[is])
		for _, from := range slices.Sorted(maps.Keys(before)) {
			if from == is || len(was) == 0 {
				continue
			}
			text, ok, err := diff3.Merge(ctx, contents[from], was, contents[is])
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, text)
			}
		}
	}
	return out, nil
}

// nearest returns the text that differs from another in the fewest lines, and in how many;
// nil if there is none.
func nearest(text []byte, all [][]byte) (found []byte, distance int) {
	for _, one := range all {
		if d := lineDistance(one, text); found == nil || d < distance {
			found, distance = one, d
		}
	}
	return found, distance
}

// lineDistance returns the number of lines that only one of two texts has. Whitespace does
// not matter.
func lineDistance(a, b []byte) int {
	count := map[string]int{}
	add := func(text []byte, n int) {
		for line := range bytes.Lines(text) {
			if line = squeeze(line); len(line) > 0 {
				count[string(line)] += n
			}
		}
	}
	add(a, 1)
	add(b, -1)
	sum := 0
	for _, n := range count {
		sum += max(n, -n)
	}
	return sum
}

// judgeDeletions decides about files that a new commit or the working tree deleted and that
// a commit from before deleted, too: they come from that commit if all else that changed
// does.
func (r *changeReader) judgeDeletions(versions map[string][]version) {
	others := 0
	for _, f := range r.files {
		if f.deleted() && !f.old {
			continue
		}
		if !f.old {
			return
		}
		others++
	}
	for _, f := range r.files {
		if f.deleted() && others > 0 {
			f.old = f.old || slices.ContainsFunc(versions[f.name], func(v version) bool { return v.is == "" })
		}
	}
}
