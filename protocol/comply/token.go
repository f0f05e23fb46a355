package comply

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/model"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// tokenNames are the variables for texts that an agent has only if it obeys a prompt.
// ${token.english} in a prompt asks for the text in English, ${token.directive} in the
// language of the scripted model, and neither contains it. An agent that follows the
// English words says ${token}, and one that follows the directive says
// ${token.scripted}; a pattern with ${token} matches both.
var tokenNames = []string{"token", "token2", "token3"}

// secretNames are the variables for texts that a prompt or a file of a test has, and a
// later prompt asks for: ${secret} is the text, ${secret.directive} asks for it.
var secretNames = []string{"secret", "secret2", "secret3"}

// The endings of the names of variables that belong to a token or a secret.
const (
	inEnglish   = ".english"
	inShell     = ".shell" // a command that prints the text, for an English prompt
	asDirective = ".directive"
)

// tokenWords are the words of which tokens are made: common ones, so that a model can
// join two of them without a mistake.
var tokenWords = []string{
	"amber", "anchor", "apple", "badger", "basil", "beaver", "birch", "bottle", "bridge", "button", "cactus", "camel", "candle", "cedar",
	"cherry", "cobra", "comet", "copper", "coral", "cotton", "desert", "donkey", "falcon", "feather", "forest", "garden", "ginger", "glacier",
	"hammer", "harbor", "heron", "island", "jacket", "jaguar", "kettle", "ladder", "lantern", "lemon", "lizard", "magnet", "maple", "marble",
	"meadow", "melon", "mirror", "monkey", "mountain", "needle", "olive", "orange", "otter", "paper", "pebble", "pepper", "pigeon", "planet",
	"pocket", "rabbit", "ribbon", "river", "rocket", "saddle", "salmon", "shadow", "silver", "spider", "sugar", "thunder", "tiger", "timber",
	"tulip", "turtle", "valley", "velvet", "walnut", "window", "winter", "yellow",
}

// tokens returns the variables of all tokens and secrets of one test. No word is used
// twice, so that no text can be put together from another one.
func tokens() jsont.Variables {
	words := slices.Clone(tokenWords)
	rand.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	next := func() string {
		word := words[0]
		words = words[1:]
		return word
	}

	out := jsont.Variables{}
	set := func(name, value string) { out[name] = jsont.Encode(value) }
	for _, name := range tokenNames {
		first, second := next(), next()
		directive := next()
		set(name, first+second)
		set(name+inEnglish, fmt.Sprintf("the two words %q and %q joined into one word", first, second))
		set(name+inShell, "printf %s%s "+first+" "+second)
		set(name+asDirective, "{proof:"+directive+"}")
		set(name+jsont.Scripted, model.Proof(directive))
	}
	for _, name := range secretNames {
		word := next()
		set(name, model.Proof(word))
		set(name+asDirective, "{proof:"+word+"}")
	}
	return out
}

// obeyed returns the form of the prompts that the agent followed, as far as the texts of
// the agent and the files that the test looked at show it.
func (r *testRun) obeyed() render.Form {
	if !bytes.Contains(r.test.Source(), []byte("${"+tokenNames[0])) {
		return ""
	}
	english, directive := false, false
	see := func(text string) {
		for _, name := range tokenNames {
			english = english || strings.Contains(text, r.tokens.Expand("${"+name+"}"))
			directive = directive || strings.Contains(text, r.tokens.Expand("${"+name+jsont.Scripted+"}"))
		}
	}

	for _, text := range r.files {
		see(text)
	}
	for _, talk := range r.ended {
		for _, e := range talk.log {
			if e.Direction == jsonrpc.In {
				see(string(e.Raw))
				see(messageText(e))
			}
		}
	}

	switch {
	case directive:
		return render.ByDirective
	case english:
		return render.InEnglish
	}
	return ""
}

// messageText returns the text so far of the message that a frame is a piece of, "" for
// any other frame.
func messageText(e *rules.Entry) string {
	if e.Chunk() == nil {
		return ""
	}
	text, _ := jsont.Lookup(e.Views()[0], "params.update.content.text")
	return jsont.Stringify(text)
}
