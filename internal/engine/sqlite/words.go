package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// maxWords is how many words a search may have.
const maxWords = 32

// eachWord calls fn with the words of a text in lower case: runs of letters,
// digits and marks. Scripts that are written without spaces give one word per
// character.
func eachWord(text string, fn func(word string)) {
	start := -1
	flush := func(end int) {
		if start >= 0 {
			fn(strings.ToLower(text[start:end]))
			start = -1
		}
	}
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'):
			if start < 0 {
				start = i
			}
		case r < utf8.RuneSelf, r == utf8.RuneError:
			flush(i)
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			flush(i)
			fn(string(r))
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		default:
			flush(i)
		}
	}
	flush(len(text))
}

// fewWords is up to how many words are looked through one by one: a set costs
// more than it saves.
const fewWords = 32

// wordsOf returns the words of a text, each once.
func wordsOf(text string) []string {
	words := make([]string, 0, fewWords)
	var seen map[string]bool // once there are more than a few
	eachWord(text, func(word string) {
		if seen[word] || seen == nil && slices.Contains(words, word) {
			return
		}
		words = append(words, word)
		if seen != nil {
			seen[word] = true
		} else if len(words) > fewWords {
			seen = make(map[string]bool, 4*fewWords)
			for _, w := range words {
				seen[w] = true
			}
		}
	})
	return words
}

// agentTag and topicTag return the word that stands for an agent or a topic. No
// word of a text has a low line.
func agentTag(id hub.AgentID) string { return tag("a_", string(id)) }
func topicTag(topic string) string   { return tag("t_", topic) }

// tag makes one word of any text. A long text is hashed: every message found is
// compared with the text itself anyway.
func tag(kind, s string) string {
	if len(s) > sha256.Size {
		sum := sha256.Sum256([]byte(s))
		return kind + "h" + hex.EncodeToString(sum[:])
	}
	return kind + hex.EncodeToString([]byte(s))
}
