package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	addWords = rows.Statement(`INSERT INTO message_text (seq, words) VALUES (?1, array_to_tsvector(string_to_array(?2, ' ')))`)
	putWords = rows.Statement(`UPDATE message_text SET words = array_to_tsvector(string_to_array(?2, ' ')) WHERE seq = ?1`)
)

// maxLexeme is how many bytes a word of the index may have.
const maxLexeme = 1024

// lexeme returns a word as it is indexed: a long one by its hash.
func lexeme(word string) string {
	if len(word) <= maxLexeme {
		return word
	}
	sum := sha256.Sum256([]byte(word))
	return "h_" + hex.EncodeToString(sum[:])
}

// lexemes returns the words of a message as the statements take them.
func lexemes(m *hub.Message, parties []hub.Party) string {
	all := rows.WordsOf(m, parties)
	for i, w := range all {
		all[i] = lexeme(w)
	}
	return strings.Join(all, " ")
}

// Inserted implements rows.Index.
func (t *tx) Inserted() error { return nil }

// Filed implements rows.Index: words are indexed with their message.
func (t *tx) Filed(seq int64, m *hub.Message, parties []hub.Party) error {
	return t.Later("postgres.Filed", addWords, seq, lexemes(m, parties))
}

// Replaced implements rows.Index.
func (t *tx) Replaced(seq int64, m *hub.Message, parties []hub.Party) error {
	_, err := t.Change("postgres.Replaced", putWords, seq, lexemes(m, parties))
	return err
}
