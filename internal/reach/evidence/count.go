package evidence

import (
	"strconv"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/report"
)

// counters find the number of tests in the output of a runner: those of Python,
// Rust, JavaScript and the Test Anything Protocol.
var counters = map[report.State]pattern.Pattern{
	report.Pass: pattern.New(`(?m)\b(\d{1,9}) (?:tests? )?(?:passed|passing|ok)\b|\bRan (\d{1,9}) tests?\b|^# pass (\d{1,9})\b|^1\.\.(\d{1,9})$`),
	report.Fail: pattern.New(`(?m)\b(\d{1,9}) (?:tests? )?(?:failed|failing)\b|\bfailures=(\d{1,9})\b|^# fail (\d{1,9})\b`),
}

// goResults begin the lines that go test -v writes for each test.
var goResults = map[report.State]string{report.Pass: "--- PASS: ", report.Fail: "--- FAIL: "}

// countShown reports whether the output of a test command shows the number of
// tests in that state, at once or in parts that add up to it.
func countShown(o Outcome, state report.State, n int) bool {
	text := o.OutputHead + "\n" + o.OutputTail
	total := 0
	for _, groups := range counters[state]().FindAllStringSubmatch(text, -1) {
		found, err := strconv.Atoi(strings.Join(groups[1:], ""))
		if err == nil && found == n {
			return true
		}
		total += found
	}
	if total > 0 {
		return total == n
	}
	if o.OutputHead != "" { // lines are missing
		return false
	}
	all, top := 0, 0 // with and without tests inside tests
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), goResults[state]) {
			all++
			if line[0] != ' ' {
				top++
			}
		}
	}
	return all > 0 && (n == all || n == top)
}
