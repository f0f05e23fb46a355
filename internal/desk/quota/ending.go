package quota

import (
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A Class says why the model of an agent gave no answer.
type Class string

// The classes. None is an ending that no class describes.
const (
	None       Class = ""
	OutOfQuota Class = "quota"    // the account has nothing left to spend
	Rate       Class = "rate"     // too many calls in a short time
	Login      Class = "login"    // the key or the login is not valid
	Overload   Class = "overload" // the vendor has too much to do
	FullInput  Class = "context"  // the conversation does not fit into the model
)

// An Ending is the end of a turn that a vendor's error caused. The text of the error is not part
// of it: it may name accounts.
type Ending struct {
	Class Class
	Until time.Time // when calls succeed again, if the error says so
}

// A sign is a form of an error with the class that it stands for.
type sign struct {
	form  pattern.Pattern
	class Class
}

func signOf(class Class, form string) sign { return sign{pattern.New(`(?i)` + form), class} }

// signs has the forms of each CLI, by its name, in the order in which they are tried; those under
// "" hold for all CLIs and follow.
var signs = map[string][]sign{
	"claude": {
		signOf(Rate, `\bper[- ]minute\b`),
		signOf(OutOfQuota, `request rejected \(429\)|\bbilling_error\b|\brate_limit\b`), // it tries again by itself after a limit of a minute
		signOf(Login, `\bauthentication_failed\b|invalid api key|please run /login`),
		signOf(FullInput, `prompt is too long`),
		signOf(Overload, `\bserver_error\b|\boverloaded\b`),
	},
	"codex": {
		signOf(OutOfQuota, `usagelimitexceeded|usage_limit_exceeded|hit your usage limit|quota exceeded`),
		signOf(Rate, `response_?too_?many_?failed_?attempts`),
		signOf(Overload, `serveroverloaded|server_overloaded|at capacity`),
		signOf(FullInput, `contextwindowexceeded|context_window_exceeded|ran out of room in the model's context`),
		signOf(Login, `"?http_?status_?code"?: ?401`),
	},
	"qwen": {
		signOf(OutOfQuota, `insufficient_quota|quota exceeded|free allocated quota`),
		signOf(Login, `\b401\b`),
	},
	"gemini": {
		signOf(OutOfQuota, `exhausted your .{0,30}quota|"code": ?429|resource_exhausted.*perday`),
		signOf(Rate, `resource_exhausted`),
	},
	"copilot": {
		signOf(Rate, `"errortype": ?"rate_limit"`),
		signOf(Login, `"errortype": ?"authentication"`),
	},
	"": {
		signOf(FullInput, `context_length_exceeded|prompt is too long|maximum context length|input token count .{0,60}exceeds|context window (?:is )?(?:exceeded|full)|exceeds? .{0,30}context window`),
		signOf(OutOfQuota, `usage[_ ]?limit|insufficient_quota|quota[_ ]exceeded|exceeded your current quota|billing_error|credit balance|payment required`),
		signOf(Login, `authentication required|requires authentication|invalid[_ ]api[_ ]key|incorrect api key|invalid x-api-key|authentication_error|authentication_failed|unauthenticated|not logged in|login (?:has )?expired|\bunauthorized\b|(?:http|status|code)\W{0,12}401\b|\b401\W{1,3}(?:invalid|incorrect|authentication)`),
		signOf(Overload, `overloaded|server_overloaded|\b529\b|\b503\b|service unavailable|\bunavailable\b`),
		signOf(Rate, `rate_limit_error|rate_limit_exceeded|rate limit|too many requests|\b429\b`),
		signOf(OutOfQuota, `resource_exhausted`),
	},
}

// Classify returns the class of the error with which a turn of a CLI ended, and the time that it
// names. The error of an unknown CLI is judged by the forms of the vendors.
func Classify(cli, text string, now time.Time) Ending {
	text = text[:min(len(text), maxText)]
	for _, list := range [][]sign{signs[family(cli)], signs[""]} {
		for _, s := range list {
			if s.form().MatchString(text) {
				return Ending{s.class, resetTime(text, now)}
			}
		}
	}
	return Ending{}
}

// lastWords match the message with which a CLI ends a turn, as if all were well, after its model
// gave no answer.
var lastWords = map[string]pattern.Pattern{
	"codex":   pattern.New(`(?s)^\s*exceeded retry limit, last status: [45]\d\d .*`),
	"copilot": pattern.New(`(?s)^Error: (?:Failed to get response from the AI model;|Authentication failed with provider|[45]\d\d ).*`),
}

// LastWords returns the error that a CLI said in the last message of a turn, "" if it is none.
func LastWords(cli, message string) string {
	form := lastWords[family(cli)]
	if form == nil {
		return ""
	}
	return form().FindString(message[:min(len(message), maxText)])
}

// maxText bounds the bytes of an error that are read.
const maxText = 64 << 10

// family returns the name of the CLI behind an adapter such as claude-agent-acp.
func family(cli string) string {
	for _, name := range []string{"claude", "codex", "qwen", "gemini", "copilot"} {
		if strings.HasPrefix(cli, name) {
			return name
		}
	}
	return cli
}

var (
	resetSeconds = pattern.New(`(?i)"?(?:resets_in_seconds|retry[_-]after)"?[=: ]+"?([0-9]{1,8})\b`)
	resetUnix    = pattern.New(`(?i)(?:resets_at"?[=: ]+|limit reached\|)"?([0-9]{10})\b`)
	resetSpan    = pattern.New(`(?i)(?:try again|retry|reset|resets) (?:in|after) ((?:[0-9]+(?:\.[0-9]+)? ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)[ ,]*(?:and )?)+)`)
	retryDelay   = pattern.New(`(?i)"retrydelay": ?"([0-9]{1,8})(?:\.[0-9]+)?s"`)
	resetClock   = pattern.New(`(?i)(?:try again|resets?) at ([0-9]{1,2}):([0-9]{2}) ?([ap]m)?`)
	spanPart     = pattern.New(`(?i)([0-9]+(?:\.[0-9]+)?) ?([dhms])`)
)

// longestReset bounds the time after which calls succeed again: a later one is a mistake.
const longestReset = 32 * 24 * time.Hour

// resetTime returns the time that an error names; zero if it names none that can be right.
func resetTime(text string, now time.Time) time.Time {
	at := time.Time{}
	switch {
	case resetUnix().MatchString(text):
		at = time.Unix(number(resetUnix().FindStringSubmatch(text)[1]), 0)
	case resetSeconds().MatchString(text):
		at = now.Add(time.Duration(number(resetSeconds().FindStringSubmatch(text)[1])) * time.Second)
	case retryDelay().MatchString(text):
		at = now.Add(time.Duration(number(retryDelay().FindStringSubmatch(text)[1])) * time.Second)
	case resetSpan().MatchString(text):
		at = now.Add(span(resetSpan().FindStringSubmatch(text)[1]))
	case resetClock().MatchString(text):
		at = clock(resetClock().FindStringSubmatch(text), now)
	}
	if !at.After(now) || at.Sub(now) > longestReset {
		return time.Time{}
	}
	return at.UTC()
}

func number(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// span returns the length of a time such as "2 days 3 hours".
func span(text string) (sum time.Duration) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	for _, part := range spanPart().FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err == nil && n < 1e6 {
			sum += time.Duration(n * float64(units[strings.ToLower(part[2])]))
		}
	}
	return sum
}

// clock returns the next moment at which the clock of this machine shows a time of day.
func clock(parts []string, now time.Time) time.Time {
	hour, minute := int(number(parts[1])), int(number(parts[2]))
	switch strings.ToLower(parts[3]) {
	case "am":
		hour %= 12
	case "pm":
		hour = hour%12 + 12
	}
	if hour > 23 || minute > 59 {
		return time.Time{}
	}
	local := now.In(time.Local)
	at := time.Date(local.Year(), local.Month(), local.Day(), hour, minute, 0, 0, time.Local)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}
