package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsOfBefore types every command that Parley had before its commands were nouns with verbs:
// it is gone and names a line that works, or it does what it did.
func TestCommandsOfBefore(t *testing.T) {
	raw, err := os.ReadFile("testdata/commands_of_before.tsv")
	if err != nil {
		t.Fatal(err)
	}
	root := new(app).root()
	seen := 0
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		words := strings.Fields(fields[0])
		seen++
		if !isCommand(root, words) {
			typeOld(t, root, words)
			continue
		}

		// Flags of before may be gone, but a flag that is left is of the same command.
		cmd, _, _ := root.Find(words)
		for _, name := range strings.Fields(fields[2]) {
			if cmd.Flag(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && !flagsGone[fields[0]+" --"+name] {
				t.Errorf("parley %s has no flag --%s any more", fields[0], name)
			}
		}
		if meaning, changed := meanings[fields[0]]; !changed && cmd.Short != fields[1] {
			t.Errorf("parley %s was %q and is %q", fields[0], fields[1], cmd.Short)
		} else if changed && meaning != cmd.Short {
			t.Errorf("parley %s is %q, and the test knows %q", fields[0], cmd.Short, meaning)
		}
	}
	if seen < 300 {
		t.Errorf("%d commands were read, want at least 300", seen)
	}
}

// typeOld types a command that is gone, without and with arguments.
func typeOld(t *testing.T, root *cobra.Command, words []string) {
	t.Helper()
	for _, args := range [][]string{nil, {"x1"}, {"x1", "--limit", "3"}} {
		got := inProcess(t, append(append([]string{}, words...), args...)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%v %v: exit %d: %s%s", words, args, got.code, got.out, got.err)
		}
		_, line, found := strings.Cut(got.err, "type: parley ")
		if !found {
			t.Errorf("%v %v names no command: %s", words, args, got.err)
			continue
		}
		command := slices.DeleteFunc(strings.Fields(line), func(word string) bool { return slices.Contains(args, word) })
		if problem := unknownWord(root, command); problem != "" {
			t.Errorf("%v %v names %q: no %s", words, args, line, problem)
		}
		for _, arg := range args {
			isNamed := slices.Equal(words, []string{"agent", "answer"}) // its question has a number of its own
			if !isNamed && !strings.Contains(line, arg) {
				t.Errorf("%v %v: %q has not the argument %s", words, args, line, arg)
			}
		}
	}
}

// flagsGone has the flags that commands lost, each of which has a new name.
var flagsGone = map[string]bool{"deny --reason": true}

// meanings has the texts of commands that say the same in other words.
var meanings = map[string]string{
	"agent":        "Manage agents: their keys, their wakes, those that the hub keeps",
	"agent resume": "Let a paused or suspended agent send again",
	"approve":      "Say yes to a thing that waits for you",
	"deny":         "Say no to a thing that waits for you",
	"doctor":       "Say what is wrong, and what to type",
	"guard":        "Ask the hub before edits and commits (for hooks)",
	"log":          "Read or search the conversation",
	"send":         "Send a message (--all: to every agent)",
	"spend":        "Show the tokens, costs, budgets and prices of agents",
	"team":         "Work in teams: roles, tasks, files",
	"wake":         "Report and wake the sessions of agent CLIs (for hooks)",
	"check":        "Allow commands that judge commits, and run them",
}

// TestGuessedWords types words that are no command: those that people guess name a command, and the
// spelling is never guessed towards a command that sends or deletes.
func TestGuessedWords(t *testing.T) {
	root := new(app).root()
	for old, line := range moved {
		words := strings.Fields(old)
		if isCommand(root, words) {
			t.Errorf("%s is a command: the table is never read", old)
		}
		for part := range strings.SplitSeq(line, "|") {
			if problem := unknownWord(root, strings.Fields(part)); problem != "" {
				t.Errorf("%s names %q: no %s", old, part, problem)
			}
		}
	}
	for typed, want := range map[string]string{
		"resume builder": "type: parley agent resume builder\n", "start": "type: parley serve\n", "cost --since 7d": "type: parley spend --since 7d\n", "lock src/a.go": "type: parley files reserve src/a.go\n",
		"merge feature": "type: parley land feature\n", "retry m7 --expires 2h": "type: parley send --again m7 --expires 2h\n", "pause --all --now": "type: parley agent wake --off --all --now\n",
		"agent answer builder 3 yes": "type: parley reply q3 yes\n", "trace 'a b'": "type: parley show ''\\''a' 'b'\\'''\n", "hanoff": "did you mean parley handoff?", "inbx": "did you mean parley inbox?",
		"team sho core": "did you mean parley team show?",
	} {
		got := inProcess(t, strings.Fields(typed)...)
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("parley %s: exit %d: %s; want %q", typed, got.code, got.err, want)
		}
	}
	for _, typed := range []string{"sned", "den", "stpo", "uninstal", "rnu", "aproove", "hub forgt", "agent revok", "files dropp", "spend budget remov"} {
		got := inProcess(t, strings.Fields(typed)...)
		_, hint, _ := strings.Cut(got.err, "did you mean parley ")
		guessed := strings.Fields(strings.TrimRight(hint, "?\n"))
		if got.code != exitUsage || (len(guessed) > 0 && slices.Contains(takesAway, guessed[len(guessed)-1])) {
			t.Errorf("parley %s: exit %d: %s", typed, got.code, got.err)
		}
	}
}
