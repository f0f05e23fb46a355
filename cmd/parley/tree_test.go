package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand visits the commands that people type.
func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden && sub.Name() != "list" {
			continue
		}
		visit(sub)
		everyCommand(sub, visit)
	}
}

// TestFirstScreen counts what a person sees first, and all commands.
func TestFirstScreen(t *testing.T) {
	screen := inProcess(t, "--help")
	commands := regexp.MustCompile(`(?m)^  [a-z]`).FindAllString(screen.out, -1)
	if len(commands) > 25 {
		t.Errorf("the first screen has %d commands, want at most 25", len(commands))
	}
	if got := inProcess(t, "help"); got.out != screen.out {
		t.Errorf("parley help: %s", got.out)
	}
	for line := range strings.Lines(screen.out) {
		if len(line) > 100 {
			t.Errorf("a line of the first screen has %d characters: %s", len(line), line)
		}
	}

	root, words := new(app).root(), 0
	isWindow := false
	for _, cmd := range root.Commands() {
		if cmd.Hidden || (windowed(cmd) && isWindow) {
			continue
		}
		isWindow = isWindow || windowed(cmd)
		words++
	}
	if words > 60 {
		t.Errorf("%d first words, want at most 60", words)
	}

	all := inProcess(t, "help", "all")
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && !strings.Contains(all.out, cmd.Name()) {
			t.Errorf("parley help all has no %s", cmd.Name())
		}
	}
	message := inProcess(t, "help", "message")
	for _, name := range messageFlagNames() {
		if !strings.Contains(message.out, "--"+name+" ") {
			t.Errorf("parley help message has no --%s", name)
		}
		if send := inProcess(t, "send", "--help"); strings.Contains(send.out, "--"+name+" ") && !strings.Contains(send.out, "parley help message") {
			t.Errorf("parley send --help repeats --%s", name)
		}
	}
}

// TestNouns reads the tree: a noun alone lists, no plural is a command but two, and every noun is in
// the glossary.
func TestNouns(t *testing.T) {
	glossary, err := os.ReadFile(filepath.Join("..", "..", "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	root := new(app).root()
	plurals := []string{"files", "events"}
	notPlural := []string{"status"}
	everyCommand(root, func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "parley ")
		isFirst := cmd.Parent() == root
		if isFirst && strings.HasSuffix(cmd.Name(), "s") && !slices.Contains(plurals, cmd.Name()) && !slices.Contains(notPlural, cmd.Name()) {
			t.Errorf("parley %s is a plural", path)
		}
		if !strings.Contains(cmd.Use, " [") || !cmd.HasSubCommands() || !takesVerb(cmd) {
			return
		}
		rows := strings.ToLower(string(glossary))
		hasRow := strings.Contains(rows, "| "+cmd.Name()+" |") || strings.Contains(rows, "| "+strings.TrimSuffix(cmd.Name(), "s")+" |")
		if !hasRow && !strings.Contains(rows, "`parley "+path+"`") {
			t.Errorf("the noun %s has no row in the glossary", cmd.Name())
		}
	})
}

// TestShortIDs reads the table of short ids.
func TestShortIDs(t *testing.T) {
	seen := map[string]string{}
	for _, k := range idKinds() {
		if seen[k.prefix] != "" {
			t.Errorf("%s is the prefix of %s and of %s", k.prefix, seen[k.prefix], k.name)
		}
		seen[k.prefix] = k.name
		if prefix, n := splitID(k.prefix + "17"); prefix != k.prefix || n != 17 {
			t.Errorf("%s17 is read as %q and %d", k.prefix, prefix, n)
		}
	}
	for _, id := range []string{"", "m", "17", "m0", "m1x", "0199c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44"} {
		if prefix, _ := splitID(id); prefix != "" && seen[prefix] != "" {
			t.Errorf("%q is taken for a %s", id, seen[prefix])
		}
	}
}
