package model

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// proofName matches a proof in a value of a directive.
var proofName = pattern.New(`\{proof:([a-z]+)\}`)

// Proof returns the text that {proof:WORD} in a directive stands for: a letter and ten
// digits of a hash of the word. The prompt does not contain this text, so an agent
// whose answer or file has it has obeyed the directive: it cannot come from quoting the
// prompt, and a model that reads the directive as English cannot guess it.
func Proof(word string) string {
	sum := sha256.Sum256([]byte("parley:proof:" + word))
	return "x" + hex.EncodeToString(sum[:5])
}

// withProofs returns a value of a directive with its proofs in place of their names.
func withProofs(value string) string {
	return proofName().ReplaceAllStringFunc(value, func(found string) string {
		return Proof(proofName().FindStringSubmatch(found)[1])
	})
}
