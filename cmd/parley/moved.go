package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// moved maps words that are no command to the command line that does it: every command that had
// another name, and words that people guess. $1, $2 and $3 are the arguments that were given; those that
// a line does not name follow it. A line behind "|" is for a call with arguments.
var moved = map[string]string{
	"root": "hub folder", "root add": "hub folder add", "root list": "hub folder", "root remove": "hub folder remove",
	"operator": "hub operator", "operator add": "hub operator add", "operator list": "hub operator", "operator remove": "hub operator remove",
	"service": "hub service", "service install": "hub service install", "service status": "hub service", "service uninstall": "hub service uninstall",
	"web": "hub viewer", "web invite": "hub viewer invite", "web sessions": "hub viewer",
	"backup": "hub backup", "export": "hub export", "import": "hub import", "archive": "hub archive", "store": "hub move", "store copy": "hub move",
	"audit": "hub journal", "audit verify": "hub verify", "audit key": "hub key", "audit witness": "hub witness", "metrics": "hub figures", "forget": "hub forget",

	"agents": "agent clis", "agents detect": "agent clis", "agent reset": "agent resume $1 --suspension", "agent kept": "agent list --kept",
	"agent answer": "approve|reply q$2 $3", "pause": "agent wake $1 --off", "contact": "agent contact",
	"wake allow": "agent wake $1 --on", "wake pause": "agent wake $1 --off", "wake resume": "agent wake $1 --on", "wake sessions": "agent sessions", "wake test": "agent test",
	"probe": "agent test", "probe gateway": "doctor --gateway", "guard check": "files check", "guard install": "files guard on", "guard remove": "files guard off", "guard status": "files guard",
	"every": "schedule add", "every list": "schedule", "every remove": "schedule remove", "every run": "schedule run",
	"in": "events", "in add": "events add", "in list": "events", "in poll": "events poll", "in remove": "events remove", "in show": "events show",

	"broadcast": "send --all", "respond": "reply", "retry": "send --again $1", "query": "log --whole|log", "undelivered": "log --undelivered", "trace": "show",
	"subscriptions": "inbox topics", "subscriptions add": "inbox topics add", "subscriptions remove": "inbox topics remove",
	"budget": "spend budget", "budget list": "spend budget", "budget remove": "spend budget remove", "budget set": "spend budget set", "prices": "spend prices", "prices set": "spend prices set",

	"handoff initiate": "handoff new", "handoff show": "show", "handoff approve": "approve",
	"negotiations": "offer|show", "positions": "decide --open|show", "decisions": "decide",
	"reserve": "files reserve", "release": "files release", "reservations": "files", "reservations show": "files show",
	"rescue": "files kept", "rescue list": "files kept", "rescue show": "show", "rescue apply": "files back", "rescue drop": "files drop",
	"landings": "land", "landings show": "show", "landings cancel": "land cancel", "landings retry": "land retry",
	"landing": "land policy", "landing set": "land policy set", "landing off": "land policy off", "landing show": "land policy",
	"undo-landing": "land undo", "review": "land review", "reviews": "land --reviews",
	"runs": "run list", "runs list": "run list", "runs show": "show", "runs replay": "run replay", "continuations": "continue",

	"deployed": "contract deployed", "impl": "contract", "impl start": "contract start", "impl complete": "contract done", "impl verify": "contract verify", "impl status": "contract progress",
	"discover": "peer find", "team artifact": "team document", "team artifact get": "team document get", "team artifact list": "team document", "team artifact log": "team document log",
	"team artifact merge": "team document merge", "team artifact put": "team document put",

	// Words that people guess.
	"resume": "agent resume", "start": "serve", "who": "agent", "whoami": "agent", "ls": "agent", "ps": "agent", "cost": "spend", "costs": "spend", "usage": "spend",
	"merge": "land", "queue": "land", "lock": "files reserve", "unlock": "files release", "claim": "files reserve", "dashboard": "open", "ui": "open", "tasks": "handoff", "task": "handoff",
	"config": "serve --help", "settings": "serve --help", "login": "open", "logout": "hub viewer end --all", "tail": "log --follow", "search": "log", "history": "log", "mail": "inbox", "read": "inbox", "msg": "send",
	"message": "send", "tell": "send", "kill": "agent wake $1 --off --now", "diff": "show", "test": "check", "tests": "check", "ci": "check", "undo": "land undo", "revert": "land undo",
	"folder": "hub folder", "folders": "hub folder", "key": "agent key", "keys": "agent", "env": "contract env", "schedules": "schedule",
}

// globalValues has the flags of every command that take a value.
var globalValues = []string{"--home", "--config", "--key-file"}

// commandWords returns the words of a command line up to its first flag, without the flags of every
// command, and the arguments behind them.
func commandWords(args []string) (words, flags []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains(globalValues, args[i]):
			i++
		case args[i] == "--" || (strings.HasPrefix(args[i], "-") && len(words) > 0 && args[i] != "--json" && args[i] != "--as-operator"):
			return words, args[i:]
		case strings.HasPrefix(args[i], "-"):
		default:
			words = append(words, args[i])
		}
	}
	return words, nil
}

// movedTo returns the error for a command line whose command has another name; nil if the words are a
// command, or unknown.
func movedTo(root *cobra.Command, args []string) error {
	words, flags := commandWords(args)
	for n := min(3, len(words)); n > 0; n-- {
		old := strings.Join(words[:n], " ")
		line, ok := moved[old]
		if !ok || isCommand(root, words[:n]) {
			continue
		}
		return usagef("it is `parley %s` now", movedName(line, words[n:])).WithHint("type: parley %s", movedLine(line, words[n:], flags))
	}
	return nil
}

// isCommand reports whether words are the path of a command.
func isCommand(root *cobra.Command, words []string) bool {
	cmd := root
	for _, w := range words {
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == w })
		if i < 0 {
			return false
		}
		cmd = cmd.Commands()[i]
	}
	return true
}

// movedTemplate returns the line of the table for a call with arguments, or without.
func movedTemplate(line string, words []string) string {
	alone, with, both := strings.Cut(line, "|")
	if both && len(words) > 0 {
		return with
	}
	return alone
}

// movedName returns the command of a line, without its arguments.
func movedName(line string, words []string) string {
	name, _, _ := strings.Cut(movedTemplate(line, words), " $")
	name, _, _ = strings.Cut(name, " q$")
	return name
}

// movedLine returns the line to type, with the arguments that were given.
func movedLine(line string, words, flags []string) string {
	var out []string
	used := map[int]bool{}
	for part := range strings.FieldsSeq(movedTemplate(line, words)) {
		i := strings.IndexByte(part, '$')
		if i < 0 {
			out = append(out, part)
			continue
		}
		n, _ := strconv.Atoi(part[i+1:])
		used[n-1] = true
		if n <= len(words) {
			out = append(out, part[:i]+shell.Word(words[n-1]))
		}
	}
	last := 0
	for n := range maps.Keys(used) {
		last = max(last, n+1)
	}
	for _, w := range append(slices.Clone(words[min(last, len(words)):]), flags...) {
		out = append(out, shell.Word(w))
	}
	return strings.Join(out, " ")
}
