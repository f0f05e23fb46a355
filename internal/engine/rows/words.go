package rows

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
		case r < utf8.RuneSelf && ((r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')):
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
		if seen[word] || (seen == nil && slices.Contains(words, word)) {
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

// WordsOf returns the words that a message is found by: those of its text, each
// once, a word for each party and one for the topic.
func WordsOf(m *hub.Message, parties []hub.Party) []string {
	words := wordsOf(hub.SearchText(m.Topic, m.Payload))
	for _, p := range parties {
		words = append(words, agentTag(p.Agent))
	}
	if m.Topic != "" {
		words = append(words, topicTag(m.Topic))
	}
	return words
}

// searchWords returns the words to search for: those of a text, one for the topic,
// and one for the viewer (none if it may see everything) and for the agent whose
// messages are wanted.
func searchWords(op string, viewer, agent hub.AgentID, topic, text string) ([]string, error) {
	words := wordsOf(text)
	switch {
	case text != "" && len(words) == 0:
		return nil, hub.Errorf(hub.CodeInvalid, op, "the search text has no words")
	case len(words) > maxWords:
		return nil, hub.Errorf(hub.CodeInvalid, op, "the search text has more than %d words", maxWords)
	}
	if topic != "" {
		words = append(words, topicTag(topic))
	}
	for _, id := range []hub.AgentID{viewer, agent} {
		if id != "" {
			words = append(words, agentTag(id))
		}
	}
	return words, nil
}
