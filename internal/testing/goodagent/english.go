package goodagent

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// understandings are ways to take a prompt that are as honest as obeying its directives.
var understandings = map[string]func(prompt string) []model.Step{
	"echo":     echo,
	"refuse":   refusePolitely,
	"refusal":  func(string) []model.Step { return []model.Step{{Do: model.Refuse}} },
	"toolless": withoutTools,
	"english":  English,
	"words":    wordsAlone,
	"careful":  askFirst,
	"wordless": func(string) []model.Step { return []model.Step{{Do: refuseSilently}} },
	"hasty":    hasty,
}

// echo repeats the prompt.
func echo(prompt string) []model.Step { return []model.Step{{Do: model.Say, Text: prompt}} }

// refusePolitely quotes the prompt and says no.
func refusePolitely(prompt string) []model.Step {
	return []model.Step{{Do: model.Say, Text: fmt.Sprintf("I am not familiar with %q, and cannot help with it. Is there something else?", prompt)}}
}

// wordsAlone says the joined words that the prompt asks for, and does nothing else of it.
func wordsAlone(prompt string) []model.Step {
	answer := "I can say this much: "
	for _, m := range joinedWords.FindAllStringSubmatch(prompt, -1) {
		answer += m[1] + m[2] + " "
	}
	return []model.Step{{Do: model.Say, Text: answer}}
}

// askFirst asks for permission to work on the prompt, which it quotes, looks around in the folder
// after any answer, and then cannot do the task.
func askFirst(prompt string) []model.Step {
	return []model.Step{
		{Do: model.Tool, Name: "permission", Args: encode(object{"text": prompt})},
		{Do: model.Tool, Name: "look"},
		{Do: model.Say, Text: "I cannot do this."},
	}
}

// hasty counts to twenty in less than a second when it is asked to count, and needs longer for any
// other prompt.
func hasty(prompt string) []model.Step {
	if slowWords.MatchString(prompt) {
		return []model.Step{{Do: model.Slow, Chunks: 20, Delay: 40}}
	}
	return []model.Step{{Do: model.Say, Text: "Hello.", Chunk: 6, Delay: 1500}}
}

// withoutTools does what directives say as far as that needs no tool.
func withoutTools(prompt string) []model.Step {
	steps, err := model.Directives(prompt)
	if err != nil || len(steps) == 0 {
		return English(prompt)
	}
	for i, s := range steps {
		switch s.Do {
		case model.Read, model.Write, model.Edit, model.Shell, model.Plan, model.MCP, model.Tool:
			steps[i] = model.Step{Do: model.Say, Text: fmt.Sprintf("cannot %s: I have no tool for it. ", s.Do)}
		}
	}
	return steps
}

// The actions of an agent that understands English, besides those of the scripted model.
const (
	repeatResult model.Action = "repeat result" // say what the last tool brought
	repeatCode   model.Action = "repeat code"   // say the code word that the user told last

	refuseSilently model.Action = "refuse silently" // stop with the reason for a refusal, and say nothing
)

// joinedWords matches the phrase for a token in a prompt of the suite.
var joinedWords = regexp.MustCompile(`the two words "([a-z]+)" and "([a-z]+)" joined into one word`)

// codeWord matches the sentence in which the user tells a code word.
var codeWord = regexp.MustCompile(`code word is (\w+)`)

// A sentence is a form of a request in English with the steps that it asks for.
type sentence struct {
	form  *regexp.Regexp
	steps func(words []string) []model.Step
}

// one returns a function that makes one step.
func one(step func(words []string) model.Step) func([]string) []model.Step {
	return func(words []string) []model.Step { return []model.Step{step(words)} }
}

// sentences are the requests in English that the prompts of the suite are made of.
var sentences = []sentence{
	{regexp.MustCompile(`(?i)\bsay (hello and \w+|\w+) four times`), one(func(w []string) model.Step {
		return model.Step{Do: model.Say, Text: strings.TrimSpace(strings.Repeat(w[1]+" ", 4)), Chunk: len(w[1]) + 1, Delay: 20}
	})},
	{regexp.MustCompile(`(?i)\bsay (hello and \w+|\w+)`), one(func(w []string) model.Step { return model.Step{Do: model.Say, Text: w[1] + " "} })},
	{regexp.MustCompile(`(?i)\brepeat exactly: (.+)`), one(func(w []string) model.Step { return model.Step{Do: model.Say, Text: w[1]} })},
	{regexp.MustCompile(`(?i)\bcount slowly from 1 to (\d+)`), one(func(w []string) model.Step {
		n, _ := strconv.Atoi(w[1])
		return model.Step{Do: model.Slow, Chunks: cmp.Or(min(n, 100), 1)}
	})},
	{regexp.MustCompile(`(?i)\bread the file (\S+\.txt)`), one(func(w []string) model.Step { return model.Step{Do: model.Read, Path: w[1]} })},
	{regexp.MustCompile(`(?i), at the same time, read the file (\S+\.txt)`), one(func(w []string) model.Step {
		return model.Step{Do: model.Read, Path: w[1], Join: true}
	})},
	{regexp.MustCompile(`(?i)\bread the files 1\.txt to (\d+)\.txt`), readAll},
	{regexp.MustCompile(`(?i)\brepeat what it says`), one(func([]string) model.Step { return model.Step{Do: repeatResult} })},
	{regexp.MustCompile(`(?i)\btell me the code word`), one(func([]string) model.Step { return model.Step{Do: repeatCode} })},
	{regexp.MustCompile(`(?i)\bwrite (\w+) to the file (\S+\.txt)`), one(func(w []string) model.Step {
		return model.Step{Do: model.Write, Text: w[1], Path: w[2]}
	})},
	{regexp.MustCompile(`(?i), at the same time, write (\w+) to the file (\S+\.txt)`), one(func(w []string) model.Step {
		return model.Step{Do: model.Write, Text: w[1], Path: w[2], Join: true}
	})},
	{regexp.MustCompile(`(?i)\breplace (\w+) with (\w+) in the file (\S+\.txt)`), one(func(w []string) model.Step {
		return model.Step{Do: model.Edit, Old: w[1], New: w[2], Path: w[3]}
	})},
	{regexp.MustCompile("(?i)\\brun the command `([^`]+)`"), one(func(w []string) model.Step { return model.Step{Do: model.Shell, Command: w[1]} })},
	{regexp.MustCompile(`(?i)\bmake a plan with the entries (\w+), (\w+) and (\w+)`), one(func(w []string) model.Step {
		return model.Step{Do: model.Plan, Entries: slices.Clone(w[1:4])}
	})},
	{regexp.MustCompile(`(?i)\bmark (\w+) as completed in the plan`), one(func(w []string) model.Step {
		return model.Step{Do: model.Plan, Entries: []string{w[1], "change", "test"}, Done: 1}
	})},
	{regexp.MustCompile(`(?i)\bcall the tool (\w+) of the MCP server (\w+) with the text (\w+)`), one(func(w []string) model.Step {
		return model.Step{Do: model.MCP, Name: w[1], Server: w[2], Args: encode(object{"text": w[3]})}
	})},
	{regexp.MustCompile(`(?i)\bask me a question with a form`), one(func([]string) model.Step { return model.Step{Do: model.Tool, Name: "ask"} })},
	{regexp.MustCompile(`(?i)\bsend the client a request of your own`), one(func([]string) model.Step { return model.Step{Do: model.Tool, Name: "extension"} })},
}

// readAll returns the steps that read numbered files.
func readAll(words []string) (steps []model.Step) {
	n, _ := strconv.Atoi(words[1])
	for i := range n {
		steps = append(steps, model.Step{Do: model.Read, Path: fmt.Sprintf("%d.txt", i+1)})
	}
	return steps
}

// English returns the steps that a prompt of the suite asks for in English. Directives are
// text without a meaning. An agent that understands nothing says so.
func English(prompt string) (steps []model.Step) {
	text := joinedWords.ReplaceAllString(directives.ReplaceAllString(prompt, ""), "$1$2")

	// Each round takes the sentence that begins first; of those that begin at the same
	// place the first of the table.
	for {
		var next *sentence
		var at []int
		for i := range sentences {
			found := sentences[i].form.FindStringSubmatchIndex(text)
			if found != nil && (at == nil || found[0] < at[0]) {
				next, at = &sentences[i], found
			}
		}
		if next == nil {
			break
		}
		var words []string
		for i := 0; i < len(at); i += 2 {
			words = append(words, text[at[i]:at[i+1]])
		}
		steps = append(steps, next.steps(words)...)
		text = text[at[1]:]
	}

	if len(steps) == 0 {
		return []model.Step{{Do: model.Say, Text: "I do not understand."}}
	}
	return steps
}

// repeat says what the last tool brought, or the code word that the user told last.
func (t *turn) repeat(ctx context.Context, s model.Step) error {
	t.c.mu.Lock()
	known := slices.Clone(t.c.Known)
	said := slices.Clone(t.c.Said)
	t.c.mu.Unlock()

	if s.Do == repeatResult && len(known) > 0 {
		return t.say(ctx, known[len(known)-1]+" ")
	}
	for _, m := range slices.Backward(said) {
		if found := codeWord.FindStringSubmatch(m.Text); s.Do == repeatCode && found != nil {
			return t.say(ctx, found[1]+" ")
		}
	}
	return t.say(ctx, model.Unknown+" ")
}
