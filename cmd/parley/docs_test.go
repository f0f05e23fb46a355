package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// namedCommand is a command of parley in a line of a page or between backquotes.
var namedCommand = regexp.MustCompile("(?m)`(parley [^`]+)`|^(?:\\$ )?(parley [a-z][^\n]*)$")

// TestCommandsOfPages looks whether every command that a page for users names exists,
// with its flags.
func TestCommandsOfPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	root := new(app).root()
	for _, wrong := range []string{"agnt list", "agent ad builder", "agent list --too"} {
		if unknownWord(root, strings.Fields(wrong)) == "" {
			t.Errorf("parley %s is taken for a command", wrong)
		}
	}
	found := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedCommand.FindAllStringSubmatch(string(raw), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], "#") // the rest of a line is a remark
			found++
			if problem := unknownWord(root, strings.Fields(line)[1:]); problem != "" {
				t.Errorf("%s: parley has no %s: %s", filepath.Base(page), problem, line)
			}
		}
	}
	if found < 400 {
		t.Errorf("%d commands were found, want at least 400", found)
	}
}

// unknownWord returns the command or flag of a command line that does not exist, "" if
// all do.
func unknownWord(cmd *cobra.Command, words []string) string {
	for i, w := range words {
		if w == "--" || w == "|" || w == "&&" || w == ";" || strings.HasPrefix(w, ">") {
			return ""
		}
		if name, isFlag := strings.CutPrefix(w, "--"); isFlag {
			name, _, _ = strings.Cut(strings.TrimRight(name, ".,;)]"), "=")
			if cmd.Flag(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help" && !cmd.DisableFlagParsing {
				return "flag --" + name + " of " + cmd.CommandPath()
			}
			continue
		}
		next := child(cmd, w)
		switch {
		case next != nil && !hasArgument(words[:i], cmd):
			cmd = next
		case cmd.HasSubCommands() && takesVerb(cmd) && !hasArgument(words[:i], cmd) && strings.ToLower(w) == w && !strings.ContainsAny(w, "|[<…."):
			return "command " + cmd.CommandPath() + " " + w
		}
	}
	return ""
}

// hasArgument reports whether words go on after the command that they name.
func hasArgument(words []string, cmd *cobra.Command) bool {
	return len(words) > 0 && words[len(words)-1] != cmd.Name()
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// takesVerb reports whether the only argument of a command is a verb.
func takesVerb(cmd *cobra.Command) bool {
	_, rest, _ := strings.Cut(cmd.Use, " ")
	return rest == "" || child(cmd, strings.Trim(rest, "[]")) != nil
}
