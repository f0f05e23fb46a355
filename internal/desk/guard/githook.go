package guard

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// A HookState says whether the pre-commit hook of a repository calls the guard.
type HookState string

// The states of a hook.
const (
	HookInstalled HookState = "installed"
	HookOutdated  HookState = "outdated" // it calls another program, or with other flags
	HookAbsent    HookState = "absent"   // it can be installed
	HookBlocked   HookState = "blocked"  // the hook cannot take the block; Problem says why
)

// A GitHook is the pre-commit hook of a repository, with the part that is the guard's: a
// block between two marks. The rest of the file is the user's.
type GitHook struct {
	Tree    string    `json:"tree"`   // the top of the working tree
	Folder  string    `json:"folder"` // from which git runs hooks
	File    string    `json:"file"`
	State   HookState `json:"state"`
	Problem string    `json:"problem,omitempty"`
	Shared  bool      `json:"shared,omitempty"`  // the folder lies outside of the repository and serves others, too
	Tracked bool      `json:"tracked,omitempty"` // the file is under version control

	line   string // that calls the guard
	before []byte // the file, nil if there is none
	mode   fs.FileMode
	block  span // of the block, if there is one
}

// A span is a part of a file, from one byte to before another. It is empty if there is none.
type span struct{ from, to int }

const (
	firstMark = "# >>> parley guard >>>"
	lastMark  = "# <<< parley guard <<<"
	madeMark  = "# parley files guard on made this file."
	aboutMark = "# Added by parley files guard on; parley files guard off takes it out."
	newHook   = "#!/bin/sh\n"
)

// wasMade reports whether Install made the file of a block, also an Install of before, which wrote
// another line.
func wasMade(block []byte) bool {
	return bytes.Contains(block, []byte(madeMark)) || bytes.Contains(block, []byte("# parley guard"+" install made this file."))
}

// FindHook returns the pre-commit hook of the repository around dir. program is the command
// line of parley, with its flags.
func FindHook(ctx context.Context, dir string, program []string) (GitHook, error) {
	const op = "guard.FindHook"
	top, err := git.Top(ctx, dir)
	if err != nil {
		return GitHook{}, hub.Errorf(hub.CodeNotFound, op, "%s is not in a git repository with a working tree: %v", dir, err)
	}
	folder, err := git.HooksFolder(ctx, top)
	if err != nil {
		return GitHook{}, hub.Errorf(hub.CodeInvalid, op, "cannot find the hooks folder of %s: %v", top, err)
	}

	h := GitHook{Tree: top, Folder: folder, File: filepath.Join(folder, "pre-commit"), line: callLine(program)}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return h.blocked("git runs no hooks here: core.hooksPath names %s, which is not a folder", folder), nil
	}
	if err := h.read(); err != nil {
		return h, hub.Errorf(hub.CodeDenied, op, "cannot read %s: %w", h.File, err)
	}
	h.Tracked = h.before != nil && git.IsTracked(ctx, top, h.target())
	h.Shared = isShared(ctx, top, folder)
	return h.judged(), nil
}

// HookIn returns the pre-commit hook in a folder from which git runs hooks, to take the guard
// out of it.
func HookIn(folder string) (GitHook, error) {
	h := GitHook{Folder: folder, File: filepath.Join(folder, "pre-commit")}
	if err := h.read(); err != nil {
		return h, hub.Errorf(hub.CodeDenied, "guard.HookIn", "cannot read %s: %w", h.File, err)
	}
	return h.judged(), nil
}

// callLine returns the line of a hook that calls the guard. Only a refusal ends the hook: without
// the program, or if that fails, the commit goes on.
func callLine(program []string) string {
	var words []string
	for _, w := range append(slices.Clone(program), "guard", "commit") {
		words = append(words, shell.Word(w))
	}
	return "[ ! -x " + shell.Word(program[0]) + " ] || " + strings.Join(words, " ") + " || [ $? -ne 1 ] || exit 1"
}

// isShared reports whether a hooks folder lies neither in the working tree nor in its repository.
func isShared(ctx context.Context, top, folder string) bool {
	common, err := git.Common(ctx, top)
	if err != nil {
		return false
	}
	for _, base := range []string{top, common} {
		if rel, err := filepath.Rel(resolved(base), resolved(folder)); err == nil && filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// read reads the file of the hook.
func (h *GitHook) read() error {
	raw, err := os.ReadFile(h.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(h.File)
	if err != nil {
		return err
	}
	h.before = append([]byte{}, raw...)
	h.mode = info.Mode().Perm()
	return nil
}

// blocked returns h with the reason for which its file cannot take the block.
func (h GitHook) blocked(format string, args ...any) GitHook {
	h.State = HookBlocked
	h.Problem = hub.Errorf(hub.CodeConflict, "", format, args...).Error()
	return h
}

// judged returns h with its state.
func (h GitHook) judged() GitHook {
	h.State = HookAbsent
	if h.before == nil {
		return h
	}
	var ok bool
	if h.block, ok = findBlock(h.before); !ok {
		return h.blocked("%s has one of the marks %q and %q without the other: remove that line first", h.File, firstMark, lastMark)
	}
	switch part := h.before[h.block.from:h.block.to]; {
	case len(part) > 0 && bytes.Contains(part, []byte("\n"+h.line+"\n")):
		h.State = HookInstalled
	case len(part) > 0:
		h.State = HookOutdated
	}

	// A hook that git does not run, or that no shell reads, is left as it is.
	switch {
	case h.State == HookAbsent && !isShell(h.before):
		return h.blocked("%s is not a shell script, so nothing can be added to it: let it run this line first, and stop the commit if the exit code is 1: %s", h.File, strings.TrimSuffix(h.call(), " || [ $? -ne 1 ] || exit 1"))
	case h.State != HookInstalled && h.mode&0o111 == 0 && hasModes:
		return h.blocked("%s is not executable, so git does not run it: make it executable, or remove it, and try again", h.File)
	}
	return h
}

// call returns the line without its test for the program.
func (h GitHook) call() string {
	_, call, _ := strings.Cut(h.line, " ] || ")
	return call
}

// findBlock returns the block in a file, with the newline that ends it; an empty span if there
// is none. It reports false for a mark without the other.
func findBlock(text []byte) (span, bool) {
	from, to := -1, -1
	at := 0
	for line := range bytes.Lines(text) {
		switch {
		case bytes.HasPrefix(line, []byte(firstMark)) && from < 0:
			from = at
		case bytes.HasPrefix(line, []byte(lastMark)) && from >= 0 && to < 0:
			to = at + len(line)
		case bytes.HasPrefix(line, []byte(lastMark)), bytes.HasPrefix(line, []byte(firstMark)):
			return span{}, false
		}
		at += len(line)
	}
	if from < 0 || to < 0 {
		return span{}, from < 0
	}
	return span{from, to}, true
}

// shells are the programs that read a hook as sh does.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}

// isShell reports whether a shell runs a hook. One without a first line that names a program is
// run by sh.
func isShell(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	program, named := bytes.CutPrefix(first, []byte("#!"))
	if !named {
		return utf8.Valid(text) && !bytes.ContainsRune(text, 0)
	}
	words := strings.Fields(string(program))
	if len(words) > 0 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	return len(words) > 0 && slices.Contains(shells, path.Base(words[0]))
}

// text returns the block. made says that the file has nothing else.
func (h GitHook) text(made bool) string {
	lines := []string{firstMark, aboutMark}
	if made {
		lines = append(lines, madeMark)
	}
	return strings.Join(append(lines, h.line, lastMark), "\n") + "\n"
}

// Install adds the block to the hook, or brings it up to date, and reports whether the file
// changed. Every other byte stays. It reports CodeConflict for a hook that cannot take the block,
// and CodeDenied if the file cannot be written.
func (h GitHook) Install() (changed bool, err error) {
	const op = "guard.Install"
	switch h.State {
	case HookInstalled:
		return false, nil
	case HookBlocked:
		return false, hub.Errorf(hub.CodeConflict, op, "%s", h.Problem)
	}

	// The block is the first part of the script: a hook may end early.
	after := []byte(newHook + h.text(true))
	mode := fs.FileMode(0o755)
	if h.before != nil {
		mode = h.mode
		part := h.before[h.block.from:h.block.to]
		at, block := h.block, h.text(wasMade(part))
		if len(part) == 0 {
			at, block = h.place()
		} else if !bytes.HasSuffix(part, []byte("\n")) {
			block = strings.TrimSuffix(block, "\n")
		}
		after = slices.Concat(h.before[:at.from], []byte(block), h.before[at.to:])
	}
	err = h.write(op, after, mode)
	return err == nil, err
}

// place returns where the block goes in a file without one, and its text there: after the line
// that names the shell.
func (h GitHook) place() (span, string) {
	if !bytes.HasPrefix(h.before, []byte("#!")) {
		return span{}, h.text(false)
	}
	end := bytes.IndexByte(h.before, '\n') + 1
	if end == 0 { // the file has no other line, and no newline
		end = len(h.before)
		return span{end, end}, "\n" + strings.TrimSuffix(h.text(false), "\n")
	}
	return span{end, end}, h.text(false)
}

// Remove takes the block out of the hook and reports whether there was one. A file that Install
// made, and that has nothing else, is removed.
func (h GitHook) Remove() (changed bool, err error) {
	const op = "guard.Remove"
	part := h.before[h.block.from:h.block.to]
	if len(part) == 0 {
		return false, nil
	}

	// Install adds a newline before the block if it is at the end of a file without one.
	from := h.block.from
	if !bytes.HasSuffix(part, []byte("\n")) && from > 0 {
		from--
	}
	after := slices.Concat(h.before[:from], h.before[h.block.to:])
	if string(after) == newHook && wasMade(part) {
		err = h.refusal(op, os.Remove(h.File))
		return err == nil, err
	}
	err = h.write(op, after, h.mode)
	return err == nil, err
}

// target returns the file that the name of the hook leads to: a link stays a link.
func (h GitHook) target() string {
	if real, err := filepath.EvalSymlinks(h.File); err == nil {
		return real
	}
	return h.File
}

// write writes the file of the hook.
func (h GitHook) write(op string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(h.Folder, 0o755); err != nil {
		return h.refusal(op, err)
	}
	return h.refusal(op, durable.WriteFile(h.target(), text, mode))
}

// refusal returns the error of a file that cannot be written.
func (h GitHook) refusal(op string, err error) error {
	if err == nil {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, op, "cannot write %s: %w", h.File, err).WithHint("make the folder %s writable, and try again", h.Folder)
}
