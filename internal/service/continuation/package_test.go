package continuation

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/tokentest"
)

// samples are texts of the kinds that agents write into titles, plans and names of files.
var samples = map[string]string{
	"english":     "The parser reads the whole file before it reports the first error, so that a person sees all mistakes at once. ",
	"paths":       "internal/service/continuation/package_test.go, cmd/parley/continue_linux_test.go; docs/pages/first-hour.md ",
	"code":        "for (const x of xs) { if (!x?.y) return {a: [1, 2, 3], b: \"c\"}; } // TODO(#123): s.o.Clock.Now().Sub(c.At.Time) ",
	"camel case":  "ContinuationReaderWithReservations getHTTPServerURLFromEnvironment maxConcurrentStreamsPerConnection ",
	"hashes":      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 ",
	"random keys": "c2VjcmV0LWtleS1xWnY3TjF4 XkQ9zPw3LmVt8RyBn5Jc KJHSDFkjhsdfKJHSDFiuywer zxqvbnmkjhw ",
	"numbers":     "1234567 890 12.5 2026-11-18T19:57:12Z 4096 65536 3.14159 ",
	"punctuation": "-> => !== ||| ### ((([[[ ~~~ ``` ??? ;;; ",
	"german":      "Die Prüfung der Übergabe schlägt fehl, weil größere Änderungen fehlen. ",
	"russian":     "Проверка передачи задачи не прошла, потому что файлы изменились. ",
	"chinese":     "解析器在报告第一个错误之前会读取整个文件，这样人们可以一次看到所有错误。",
	"japanese":    "パーサーは最初のエラーを報告する前にファイル全体を読み込みます。",
	"korean":      "파서는 첫 번째 오류를 보고하기 전에 전체 파일을 읽습니다. ",
	"hindi":       "पार्सर पहली त्रुटि बताने से पहले पूरी फ़ाइल पढ़ता है। ",
	"emoji":       "🚀🧑‍💻🔥🇩🇪👩🏽‍🔬🪿",
}

// A text of maxTokens, as they are estimated, has at most 1,200.
func TestTokensAreEstimated(t *testing.T) {
	for name, sample := range samples {
		text := strings.Repeat(sample, 20)
		estimated, counted := tokens(text), tokentest.Count(t, text)
		if estimated*1200 < counted*maxTokens {
			t.Errorf("%s: estimated %d, counted %d", name, estimated, counted)
		}
	}
}

// The first turn of a successor reads one text of at most 1,200 tokens, whatever the agents wrote.
func TestBriefsAreShort(t *testing.T) {
	for name, sample := range samples {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat(sample, 200)
			k := task{handoff: hub.Handoff{Team: "core"}, asked: []string{long, long}, held: make([]string, 50)}
			k.pkg.Task.Objective = long
			k.pkg.Task.Criteria = []string{long, long}
			k.pkg.Work.Next = "write the last test " + long
			rescue := &hub.Rescue{ID: "s1", Files: 50, Insertions: 100, Paths: make([]string, 50), Submodules: []string{long}, Unreadable: []string{long}}
			for i := range rescue.Paths {
				rescue.Paths[i] = cut(long, 60)
				k.held[i] = cut(long, 60)
			}
			c := hub.Continuation{ID: "k1", Handoff: "h1", Next: "h2", Task: long, Title: long, Of: "builder", To: "tester", Reason: hub.ContinueQuota, Folder: "/" + long, Branch: long, Head: "9f86d081884c7d65", Rescue: rescue, Said: long}
			names := handoffNames{"h1": "h1", "h2": "h2"}

			text := brief(c, k, names)
			if n := tokentest.Count(t, text); n > 1200 {
				t.Errorf("%d tokens: %s", n, text)
			}
			for _, part := range []string{"accept the handoff h2", "Next step: write the last test", "Begin with git status", "s1"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in %s", part, text)
				}
			}

			// Text about several tasks is not longer.
			all := make([]reading, 30)
			for i := range all {
				all[i] = reading{Text: text, Short: shortBrief(c, k, names)}
			}
			joined := joinReadings(all)
			if n := tokentest.Count(t, joined); n > 1200 || !strings.Contains(joined, "more tasks") || !strings.HasPrefix(joined, text) {
				t.Errorf("%d tokens for all: %s", n, joined)
			}
		})
	}
}
