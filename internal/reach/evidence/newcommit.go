package evidence

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxIndex is the size of the largest index that is changed, in bytes.
const maxIndex = 256 << 20

// MakeCommit commits files of a working tree on its branch as they are, and returns the
// commit; the one that is checked out if it has the files like this already.
//
// It is for agents that may not write to the repository themselves. Like every check it
// runs git in a scratch of our own, so that neither hooks nor filters nor the configuration
// of the repository matter; the objects, the branch and the index are then written here, each
// as git does it: under a lock, whole or not at all. A file that git would convert is
// refused, because the commit would have it in the wrong form.
func (in *Inspector) MakeCommit(ctx context.Context, c hub.NewCommit) (id string, err error) {
	ctx, end, err := in.begin(ctx)
	defer end()
	if err == nil {
		in, err = in.current(ctx)
	}
	if err != nil {
		return "", err
	}
	repo, err := in.openRepository(c.Path)
	if err != nil {
		return "", err
	}
	defer repo.close()
	if err := in.mustBeRegistered(repo, c.Path); err != nil {
		return "", err
	}
	s, err := in.newScratch(ctx, repo)
	if err != nil {
		return "", err
	}
	defer s.close()
	m := &commitMaker{NewCommit: c, repo: repo, scratch: s, format: repo.format(), objects: map[string]object{}}
	id, err = m.make(ctx)
	return id, in.late(ctx, err)
}

// An object is a new object of a repository.
type object struct {
	kind    string
	content []byte
}

// A commitMaker makes one commit.
type commitMaker struct {
	hub.NewCommit
	repo    *repository
	scratch *scratch
	format  int
	branch  string
	objects map[string]object // new ones, by name
	changed map[string]blob   // the files of the commit; zero for one that is deleted
}

func (m *commitMaker) make(ctx context.Context) (string, error) {
	if err := m.checkBranch(); err != nil {
		return "", err
	}

	files := map[string]blob{}
	var err error
	if m.Head != "" {
		if files, _, err = m.scratch.files(ctx, m.Head); err != nil {
			return "", err
		}
	}
	if err := m.readFiles(ctx, files); err != nil {
		return "", err
	}

	// Without a change there is no new commit.
	before := maps.Clone(files)
	for name, b := range m.changed {
		putFile(files, name, b)
	}
	if maps.Equal(before, files) {
		return m.Head, nil
	}

	tree, err := treeOf(files, m.put)
	if err != nil {
		return "", err
	}
	index, err := m.newIndex(ctx)
	if err != nil {
		return "", err
	}
	id, err := m.put("commit", m.text(tree))
	if err != nil {
		return "", err
	}
	return id, m.publish(id, index)
}

// put takes a new object.
func (m *commitMaker) put(kind string, content []byte) (string, error) {
	id := hashOf(m.format, kind, content)
	m.objects[id] = object{kind, bytes.Clone(content)}
	return id, nil
}

// checkBranch refuses a working tree without a branch, one whose branch moved meanwhile, and
// one in the middle of a merge or a rebase.
func (m *commitMaker) checkBranch() error {
	const op = "evidence.MakeCommit"
	head, err := m.repo.resolve("HEAD")
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	switch {
	case !strings.HasPrefix(head.name, branchPrefix):
		return hub.Errorf(hub.CodeConflict, op, "no branch is checked out in %s", show(m.Path))
	case head.id != m.Head:
		return hub.Errorf(hub.CodeConflict, op, "the branch moved in the meantime")
	}
	m.branch = head.name
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"} {
		if _, err := m.repo.dir.Lstat(name); err == nil {
			return hub.Errorf(hub.CodeConflict, op, "a merge or rebase is not finished in %s", show(m.Path))
		}
	}
	return nil
}

// readFiles reads the files to commit. files are those of the commit that is checked out.
func (m *commitMaker) readFiles(ctx context.Context, files map[string]blob) error {
	const op = "evidence.MakeCommit"
	m.changed = map[string]blob{}
	var present, crlf []string
	for _, name := range m.Files {
		info, err := m.repo.tree.Lstat(name)
		switch {
		case absent(err) && files[name] != blob{}:
			m.changed[name] = blob{}
			continue
		case err != nil:
			return explain(name, err)
		case files[name].mode == modeSubmodule || info.IsDir():
			return hub.Errorf(hub.CodeConflict, op, "%s is a folder or a submodule", show(name))
		}

		// Git stores the target of a link as its content.
		var content []byte
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := m.repo.tree.Readlink(name)
			if err != nil {
				return explain(name, err)
			}
			content = []byte(to)
		} else {
			if content, err = readSmall(m.repo.tree, name, maxLines); err != nil {
				return explain(name, err)
			}
			present = append(present, name)
			if bytes.Contains(content, []byte("\r\n")) {
				crlf = append(crlf, name)
			}
		}

		id, err := m.put("blob", content)
		if err != nil {
			return err
		}
		m.changed[name] = blob{gitMode(info.Mode()), id}
	}

	return m.checkConversion(ctx, files, present, crlf)
}

// checkConversion refuses files that git would store in another form: through a filter, in
// another encoding, or with other line ends.
func (m *commitMaker) checkConversion(ctx context.Context, files map[string]blob, present, crlf []string) error {
	const op = "evidence.MakeCommit"
	if err := m.copyAttributes(present); err != nil {
		return err
	}

	converted, err := m.scratch.attributes(ctx, present, "filter", "ident", "working-tree-encoding")
	if err != nil {
		return err
	}
	ends, err := m.scratch.attributes(ctx, crlf, "text", "eol")
	if err != nil {
		return err
	}
	maps.Copy(converted, ends)

	// A file with CRLF whose committed content has none counts as converted.
	var ids []string
	for _, name := range crlf {
		if id := files[name].id; id != "" {
			ids = append(ids, id)
		}
	}
	before, err := m.scratch.contents(ctx, ids)
	if err != nil {
		return err
	}
	for _, name := range crlf {
		was, known := before[files[name].id]
		converted[name] = converted[name] || (known && !bytes.Contains(was, []byte("\r\n")))
	}

	for _, name := range present {
		if converted[name] {
			return hub.Errorf(hub.CodeNotEnabled, op, "git converts %s on commit, and the hub does not", show(name)).WithHint("commit it with git")
		}
	}
	return nil
}

// copyAttributes copies the rules for the files to the place where git looks for them.
func (m *commitMaker) copyAttributes(names []string) error {
	folders := map[string]bool{".": true}
	for _, name := range names {
		hold(folders, name)
	}
	for folder := range folders {
		name := path.Join(folder, ".gitattributes")
		b, err := readSmall(m.repo.tree, name, maxInfo)
		switch {
		case absent(err):
			continue
		case err != nil:
			return explain(name, err)
		}
		if err := m.scratch.tree.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := m.scratch.tree.WriteFile(name, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// putFile puts a file into a list, or removes it. A file and a folder of one name exclude each
// other.
func putFile(files map[string]blob, name string, b blob) {
	if b == (blob{}) {
		delete(files, name)
		return
	}
	maps.DeleteFunc(files, func(other string, _ blob) bool {
		return strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
	})
	files[name] = b
}

// text returns the content of the commit. The agent is the author, the hub the committer.
func (m *commitMaker) text(tree string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	if m.Head != "" {
		fmt.Fprintf(&b, "parent %s\n", m.Head)
	}
	fmt.Fprintf(&b, "author %s %d +0000\n", m.signature(string(m.Author)), m.At.Unix())
	fmt.Fprintf(&b, "committer %s %d +0000\n\n", m.signature("parley"), m.At.Unix())
	b.WriteString(strings.TrimSpace(m.Message) + "\n")
	return b.Bytes()
}

// signature returns the name and address of an agent in a commit. The domain exists nowhere.
func (m *commitMaker) signature(name string) string {
	return fmt.Sprintf("%s <%[1]s@parley.invalid>", name)
}

// newIndex returns the index with the files of the commit, nil if there is no index.
func (m *commitMaker) newIndex(ctx context.Context) ([]byte, error) {
	b, err := readSmall(m.repo.dir, "index", maxIndex)
	switch {
	case absent(err):
		return nil, nil
	case err != nil:
		return nil, explain("index", err)
	}
	at := m.scratch.gitDir() + "/index"
	if err := os.WriteFile(at, b, 0o600); err != nil {
		return nil, err
	}
	var input strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.changed)) {
		entry := m.changed[name]
		if entry == (blob{}) {
			entry = blob{"0", strings.Repeat("0", m.format)}
		}
		fmt.Fprintf(&input, "%s %s\t%s\x00", entry.mode, entry.id, name)
	}
	if _, err := m.scratch.run(ctx, maxOutput, input.String(), "update-index", "-z", "--replace", "--index-info"); err != nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, "evidence.MakeCommit", "the hub cannot edit the index of %s: its format is not supported", show(m.Path)).WithHint("commit with git")
	}
	return os.ReadFile(at)
}

// publish writes the objects, then moves the branch and replaces the index, both under their
// locks.
func (m *commitMaker) publish(id string, index []byte) (err error) {
	done := func(bool) error { return nil }
	if index != nil {
		if done, err = m.lock(m.repo.dir, "index", index); err != nil {
			return err
		}
	}
	err = m.moveBranch(id)
	return errors.Join(err, done(err == nil))
}

// moveBranch writes the objects and moves the branch to the new commit.
func (m *commitMaker) moveBranch(id string) (err error) {
	if err := m.repo.common.MkdirAll(path.Dir(m.branch), 0o777); err != nil {
		return explain(m.branch, err)
	}
	done, err := m.lock(m.repo.common, m.branch, []byte(id+"\n"))
	if err != nil {
		return err
	}
	now, err := m.repo.resolve("HEAD")
	switch {
	case err != nil && hub.CodeOf(err) != hub.CodeNotFound:
	case now.id != m.Head || now.name != m.branch:
		err = hub.Errorf(hub.CodeConflict, "evidence.MakeCommit", "the branch moved in the meantime")
	default:
		err = m.writeObjects()
	}
	if err = errors.Join(err, done(err == nil)); err == nil {
		m.logMove(id)
	}
	return err
}

// lock writes the next content of a file into its lock, as git does. done puts it into its
// place, or removes it.
func (m *commitMaker) lock(folder *os.Root, name string, content []byte) (done func(ok bool) error, err error) {
	at := name + ".lock"
	f, err := folder.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, hub.Errorf(hub.CodeConflict, "evidence.MakeCommit", "git is running in the repository: %s exists", show(at)).WithHint("try again")
	case err != nil:
		return nil, explain(at, err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(err, folder.Remove(at))
	}
	return func(ok bool) error {
		if ok {
			return folder.Rename(at, name)
		}
		return folder.Remove(at)
	}, nil
}

// writeObjects writes the new objects into the repository.
func (m *commitMaker) writeObjects() error {
	for id, o := range m.objects {
		folder := path.Join("objects", id[:2])
		name := path.Join(folder, id[2:])
		if _, err := m.repo.common.Lstat(name); err == nil {
			continue
		}
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		fmt.Fprintf(z, "%s %d\x00", o.kind, len(o.content))
		z.Write(o.content)
		if err := z.Close(); err != nil {
			return err
		}
		if err := m.repo.common.MkdirAll(folder, 0o777); err != nil {
			return explain(folder, err)
		}
		part := path.Join(folder, "tmp_obj_"+rand.Text())
		err := m.repo.common.WriteFile(part, packed.Bytes(), 0o444)
		if err == nil {
			err = m.repo.common.Rename(part, name)
		}
		if err != nil {
			m.repo.common.Remove(part)
			return explain(name, err)
		}
	}
	return nil
}

// logMove notes the move in the logs of the branch and of HEAD, if the repository keeps them.
// They are for people: a failure is no harm.
func (m *commitMaker) logMove(id string) {
	was := m.Head
	if was == "" {
		was = strings.Repeat("0", m.format)
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(m.Message), "\n")
	line := fmt.Sprintf("%s %s %s %d +0000\tcommit: %s\n", was, id, m.signature("parley"), m.At.Unix(), subject)
	for name, folder := range map[string]*os.Root{"logs/HEAD": m.repo.dir, "logs/" + m.branch: m.repo.common} {
		f, err := folder.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			continue
		}
		f.WriteString(line)
		f.Close()
	}
}
