package shell_test

import (
	"os/exec"
	"testing"

	"github.com/parley-agents/parley/internal/shell"
)

// TestWord gives each word to a shell and compares the argument that comes out.
func TestWord(t *testing.T) {
	for _, word := range []string{
		"", "plain", "/usr/bin/parley", "a b", "it's", `"x"`, "$HOME", "`id`", "a;b", "~", "{a,b}", "*", "#x", "!x", "\\", "a\nb", "größe", "--flag=x", "-", "a&b|c>d<e", "[a]", "(x)", "^", "%x",
	} {
		out, err := exec.Command("sh", "-c", "printf %s "+shell.Word(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: got %q (%v)", word, out, err)
		}
	}
	if got := shell.Word("/usr/bin/parley"); got != "/usr/bin/parley" {
		t.Errorf("got %s, want a plain path as it is", got)
	}
}
