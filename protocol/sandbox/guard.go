package sandbox

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// A guard is a row of the table of files that are more than files to edit, because a
// program runs or obeys their text by itself.
type guard struct {
	paths   []string // patterns of paths: see matches
	reader  string   // the program, and when it uses the files; for people
	verdict Verdict  // Reject if a change is an execution, Ask if a person decides, Allow for plain data
}

// guards is the table. The first row that matches a path decides. Names are in lower
// case, because case does not count on every disk.
//
// The rows with names are for programs whose files are known to run commands, and for
// files without a dot. The last row is the rule for all others: a name that begins with
// a dot belongs to a program, and a person decides.
var guards = []guard{
	{[]string{".git/", "git~*/", ".gitattributes", ".gitmodules", ".gitconfig"}, "git runs the hooks, filters and commands it names", Reject},
	{[]string{"head"}, "a folder with a file HEAD can become a git repository, whose configuration names commands", Reject},
	{[]string{".hg/", ".hgrc", ".jj/", ".svn/", ".bzr/"}, "a version control system runs the hooks and commands it names", Reject},
	{[]string{".githooks/", ".husky/", ".lefthook/", "lefthook.*", "lefthook-local.*", ".lefthook.*", ".lefthook-local.*", ".pre-commit-config.yaml", ".overcommit.yml"}, "git hooks run it at the next commit", Reject},

	{[]string{".profile", ".bashrc", ".bash_*", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"}, "a shell runs it when it starts", Reject},
	{[]string{".envrc", ".direnv/"}, "direnv runs it in a shell that enters the folder", Reject},
	{[]string{"mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".miserc.toml", ".mise/", "mise/config.toml", "mise/config.*.toml", "mise/conf.d/", ".config/mise/", ".tool-versions"}, "mise runs its hooks and chooses programs by it in a shell that enters the folder", Reject},

	{[]string{".vscode/", "*.code-workspace", ".idea/", ".devcontainer/", ".devcontainer.json", ".zed/", ".fleet/"}, "an editor runs the tasks and programs it names when it opens the folder", Reject},
	{[]string{".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".emacs", ".emacs.d/"}, "an editor runs it when it opens a file in the folder", Reject},
	{[]string{".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc"}, "a debugger or an interpreter runs it when it starts in the folder", Reject},
	{[]string{"sitecustomize.py", "usercustomize.py"}, "Python runs it when it starts with the folder on its path", Reject},
	{[]string{".yarnrc", ".yarnrc.yml", ".yarn/plugins/", ".yarn/releases/", ".yarn/sdks/", ".pnpmfile.cjs", ".pnpmfile.mjs", ".npmrc"}, "a package manager runs the programs it names", Reject},

	{[]string{".mcp.json", ".github/mcp.json", ".github/hooks/"}, "agents start the programs it names", Reject},
	{[]string{
		".claude/", ".claude.json", ".codex/", ".gemini/", ".qwen/", ".opencode/", "opencode.json", "opencode.jsonc", ".crush/", "crush.json", ".crush.json", ".copilot/", ".cursor/", ".pi/",
		".roo/", ".kilocode/", ".goose/", ".amp/", ".continue/", ".windsurf/", ".parley/",
	}, "an agent runs the commands of its settings in the folder", Reject},

	{[]string{"claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md", "gemini.md", "qwen.md", "crush.md", "warp.md", "context.md"}, "agents follow it as instructions from their user", Ask},

	{[]string{".*ignore", ".gitkeep", ".keep", ".editorconfig"}, "data", Allow},

	{[]string{".*/"}, "a name with a dot holds settings of a program, which may run the commands in them", Ask},
}

// matches reports whether the pattern covers a path, given as its names in lower case.
// A pattern is one name or several with slashes between them, each as in [path.Match],
// and is found at any depth. With a slash at its end it covers a folder with everything
// in it, otherwise a file.
func matches(pattern string, names []string) bool {
	pattern, folder := strings.CutSuffix(pattern, "/")
	want := strings.Split(pattern, "/")
	for i := range names {
		rest := names[i:]
		if len(rest) < len(want) || (!folder && len(rest) != len(want)) {
			continue
		}
		same := true
		for j, p := range want {
			ok, _ := path.Match(p, rest[j]) // the patterns are valid
			same = same && ok
		}
		if same {
			return true
		}
	}
	return false
}

// A concern is a reason why the change of a file is not an edit like any other. The zero
// value is none.
type concern struct {
	verdict Verdict // Reject or Ask
	reason  string  // for people
}

// worry returns the concern about a change of the file at path, which is clean, by an
// agent that works in folders. Names above these do not count; without folders all names
// do. Links are followed as far as they exist, and both spellings count.
func worry(path string, folders []string) (worst concern) {
	for _, p := range []string{path, follow(path)} {
		if c := look(p, folders); worst.verdict == "" || c.verdict == Reject {
			worst = c
		}
	}
	return worst
}

// look returns the concern about a change of the file at a clean path.
func look(path string, folders []string) concern {
	folder := folderOf(path, folders)
	if repository(folder, path) {
		return concern{Reject, "it is part of a git repository, or makes one, whose configuration names commands"}
	}
	names := plainNames(inTree(folder, path))
	outside := folder == "" && len(folders) > 0
	for _, g := range guards {
		if !slices.ContainsFunc(g.paths, func(p string) bool { return matches(p, names) }) {
			continue
		}
		if g.verdict == Reject || (g.verdict == Ask && !outside) {
			return concern{g.verdict, g.reader}
		}
		break
	}
	if outside {
		return concern{Ask, "it is outside the agent's working folder"}
	}
	return concern{}
}

// folderOf returns the innermost of the folders that path is in, as path spells it, or ""
// if it is in none.
func folderOf(path string, folders []string) (in string) {
	for _, folder := range folders {
		folder = filepath.Clean(folder)
		for _, name := range []string{folder, follow(folder)} {
			if _, ok := below(name, path); ok && len(name) > len(in) {
				in = name
			}
		}
	}
	return in
}

// below returns the rest of path after dir, if path is dir or lies in it.
func below(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// inTree returns the part of path below folder, or below the innermost working tree of
// git if that is deeper: a tree that lies in a folder of the table, as agents make them,
// is one to work in.
func inTree(folder, path string) string {
	part := path
	if rel, ok := below(folder, path); ok && folder != "" {
		part = rel
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue
		}
		if rel, ok := below(dir, path); ok && len(rel) < len(part) {
			part = rel
		}
		break
	}
	return part
}

// plainNames returns the names of a path as the least careful file system compares them:
// without case, invisible characters, streams, and dots and blanks at the end.
func plainNames(path string) []string {
	names := strings.Split(filepath.ToSlash(path), "/")
	for i, name := range names {
		name = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1
			}
			return unicode.ToLower(unicode.ToUpper(r)) // some letters have two lower cases
		}, name)
		name, _, _ = strings.Cut(name, ":")
		names[i] = strings.TrimRight(name, ". ")
	}
	return names
}

// repository reports whether a folder above path, up to folder, is a git repository
// without a working tree, or would be one with the file at path. Git takes a folder for
// one if it has a file HEAD and either folders objects and refs or a file commondir that
// names them. The table has HEAD, so that no order of writes makes such a folder; here
// HEAD was there before.
func repository(folder, path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if completes(dir, path) {
			return true
		}
		if dir == folder {
			break
		}
	}
	return false
}

// completes reports whether dir is a repository as soon as the file at path exists.
func completes(dir, path string) bool {
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	if !exists("HEAD") {
		return false
	}
	rel, _ := below(dir, path)
	part := slices.Contains([]string{"objects", "refs", "commondir"}, plainNames(rel)[0])
	return part || (exists("objects") && exists("refs")) || exists("commondir")
}

// Guarded are Files whose use Permissions decide. It is safe for concurrent use.
type Guarded struct {
	files       *Files
	permissions *Permissions
	writing     chan struct{} // holds a value while a write is decided and made
	around      func(ctx context.Context, path string, write func() error) error
}

// NewGuarded returns the files with a decision before each use.
func NewGuarded(files *Files, permissions *Permissions) *Guarded {
	plain := func(_ context.Context, _ string, write func() error) error { return write() }
	return &Guarded{files, permissions, make(chan struct{}, 1), plain}
}

// Around sets the function that makes each write that was permitted: it calls write, or
// refuses the write with an error. It must be called before the first use.
func (g *Guarded) Around(f func(ctx context.Context, path string, write func() error) error) {
	g.around = f
}

// Read is [Files.Read] after a decision. A refusal has CodeRefused.
func (g *Guarded) Read(ctx context.Context, path string, line, limit int) (string, error) {
	if err := g.permissions.permit(ctx, Request{Kind: KindRead, Title: "read " + path}); err != nil {
		return "", err
	}
	return g.files.Read(ctx, path, line, limit)
}

// Write is [Files.Write] after a decision. The next write is decided when this one was
// made: the meaning of a file depends on those beside it.
func (g *Guarded) Write(ctx context.Context, path, text string) error {
	select {
	case g.writing <- struct{}{}:
	case <-ctx.Done():
		return systemError("write", path, ctx.Err())
	}
	defer func() { <-g.writing }()
	if _, err := g.files.roots.place("write", path); err != nil { // nobody need be asked
		return err
	}
	r := Request{Kind: KindEdit, Title: "write " + path, Paths: []string{path}}
	for _, root := range g.files.roots.roots {
		r.Folders = append(r.Folders, root.name)
	}
	if err := g.permissions.permit(ctx, r); err != nil {
		return err
	}
	return g.around(ctx, path, func() error { return g.files.Write(ctx, path, text) })
}
