package shell_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/parley-agents/parley/internal/ground/text/shell"
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

func TestCommands(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "[]",
		"make test":                            "[[make test]]",
		"cd sub && ./run.sh --fast; echo done": "[[cd sub] [./run.sh --fast] [echo done]]",
		"A=1 sh 'my file.sh' \"a b\" c\\ d":    "[[A=1 sh my file.sh a b c d]]",
		"go test ./... 2>&1 | tee out.txt":     "[[go test ./...] [tee out.txt]]",
		"cat <in >out; x":                      "[[cat] [x]]",
		"echo $(./inner.sh a) `./old.sh`":      "[[echo] [./inner.sh a] [./old.sh]]",
		"$(PYTHON) t.py ${X} $Y":               "[[$(PYTHON) t.py ${X} $Y]]",
		"a # ./comment.sh\nb":                  "[[a] [b]]",
		"a \\\n b":                             "[[a b]]",
		"(a; b) & c":                           "[[a] [b] [c]]",
		"./größe.sh":                           "[[./größe.sh]]",
		"'open":                                "[[open]]",
		"x\\":                                  "[[x]]",
	} {
		if got := fmt.Sprint(shell.Commands(text)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzCommands(f *testing.F) {
	f.Add("cd x && A=1 sh -c \"$(y)\" <<EOF")
	f.Fuzz(func(t *testing.T, text string) {
		for _, words := range shell.Commands(text) {
			if len(words) == 0 {
				t.Error("a command without words")
			}
		}
	})
}
