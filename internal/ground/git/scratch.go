package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Scratch is an empty repository of our own that stands in for a repository of the user
// while git writes or compares files: it borrows the objects, and has those settings and
// rules of the other one that say how files look. None of them names a program. Git reads
// the configuration of the system and the user beside it, so filters that the user has
// defined convert files, those of the repository do not, and a filter that the user has not
// defined leaves the content as it is stored.
type Scratch struct {
	folder   string
	objects  string
	settings map[string]string
	Plain    bool // git reads no configuration of the system and the user either, so that no filter runs
}

// ScratchName begins the names of the folders of scratches. A killed process leaves them.
const ScratchName = "parley-worktree-"

// NewScratch makes a scratch in a folder, or in that for temporary files if it is "", for a
// working tree of a repository. own is the tree's own folder of git, and common the one that
// all trees share. The caller closes it.
func NewScratch(ctx context.Context, in, tree, own, common string) (*Scratch, error) {
	folder, err := os.MkdirTemp(in, ScratchName+"*")
	if err != nil {
		return nil, err
	}
	s := &Scratch{folder: folder, objects: filepath.Join(common, "objects")}
	if err := s.lay(ctx, tree, own, common); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close removes the scratch.
func (s *Scratch) Close() { os.RemoveAll(s.folder) }

// Command returns a command that works on the files of a folder, which is the top of the
// working tree for it, and on an index file. The caller can add to its environment.
func (s *Scratch) Command(ctx context.Context, program, top, index string, args ...string) *exec.Cmd {
	own := []string{"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false"} // the index must not refer to files of the scratch
	var cmd *exec.Cmd
	if s.Plain {
		cmd = Alone(ctx, program, top, append(own, args...)...)
	} else {
		cmd = In(ctx, program, top, append(own, args...)...)
	}
	cmd.Env = append(cmd.Env, "GIT_DIR="+s.folder, "GIT_WORK_TREE="+top, "GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+s.objects)
	return cmd
}

// Is reports whether a setting of the repository or the user, with a name in lower case, is
// true. A setting that is not there has the given value.
func (s *Scratch) Is(name string, otherwise bool) bool {
	value, ok := s.settings[name]
	if !ok {
		return otherwise
	}
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}

// Settings returns the settings in a file of a configuration, by their names in lower case, but
// for the middle of a name. Files that it includes are not read. A setting without a value is
// true.
func Settings(ctx context.Context, file string) (map[string]string, error) {
	list, err := output(In(ctx, "git", filepath.Dir(file), "config", "--no-includes", "--file", file, "--null", "--list"))
	if err != nil {
		return nil, err
	}
	return parseSettings(list), nil
}

// parseSettings reads a list of settings that git writes with zero bytes. The last one of a
// name counts.
func parseSettings(list string) map[string]string {
	out := map[string]string{}
	for _, setting := range strings.Split(list, "\x00") {
		name, value, assigned := strings.Cut(setting, "\n")
		if !assigned {
			value = "true"
		}
		out[name] = value
	}
	return out
}

// lay makes the repository.
func (s *Scratch) lay(ctx context.Context, tree, own, common string) error {
	for _, folder := range []string{"objects", "refs", "info"} {
		if err := os.Mkdir(filepath.Join(s.folder, folder), 0o700); err != nil {
			return err
		}
	}

	settings, err := output(In(ctx, "git", tree, "config", "--null", "--list"))
	if err != nil {
		return err
	}
	s.settings = parseSettings(settings)
	files := map[string][]byte{
		"HEAD":   []byte("ref: refs/heads/none\n"),
		"config": scratchConfig(settings, common),
	}

	// Not every repository has these files. An index may be divided in two.
	from := map[string]string{"shallow": common, "info/attributes": common, "info/exclude": common, "info/sparse-checkout": own}
	entries, err := os.ReadDir(own)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sharedindex.") {
			from[e.Name()] = own
		}
	}
	for name, dir := range from {
		b, err := readRegular(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			files[name] = b
		}
	}

	for name, b := range files {
		if err := os.WriteFile(filepath.Join(s.folder, filepath.FromSlash(name)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// readRegular reads a file that is not a link; a link is not there for it.
func readRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(path)
}

// portable are the settings that the scratch takes from the repository: how its objects are
// named, how lines, links and modes become files, which files are wanted, and where git LFS
// finds content. None names a program. A star stands for the name in the middle.
var portable = []string{
	"core.autocrlf", "core.bigfilethreshold", "core.checkroundtripencoding", "core.eol", "core.filemode", "core.ignorecase", "core.longpaths", "core.precomposeunicode", "core.protecthfs",
	"core.protectntfs", "core.safecrlf", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks",
	"extensions.objectformat",
	"branch.*.remote", "lfs.url", "remote.*.lfsurl", "remote.*.url",
}

// scratchConfig returns the text of a configuration with the portable settings of a list,
// as git writes it with zero bytes. common is the folder of the repository, whose content
// of LFS is used.
func scratchConfig(list, common string) []byte {
	var b strings.Builder
	b.WriteString("[core]\n\trepositoryformatversion = 1\n\tbare = false\n[lfs]\n\tstorage = " + quote(filepath.Join(common, "lfs")) + "\n")
	for _, setting := range strings.Split(list, "\x00") {
		key, value, assigned := strings.Cut(setting, "\n")
		section, name, last := parts(key)
		head, wanted := section, section+"."+last
		if name != "" {
			head, wanted = section+" "+quote(name), section+".*."+last
		}
		if !slices.Contains(portable, wanted) {
			continue
		}
		b.WriteString("[" + head + "]\n\t" + last)
		if assigned {
			b.WriteString(" = " + quote(value))
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}

// parts cuts the key of a setting: section, the name in the middle, which may be empty and
// may have dots, and the last word.
func parts(key string) (section, name, last string) {
	section, rest, _ := strings.Cut(key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

// quote returns a text as a configuration writes a value or a name.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
