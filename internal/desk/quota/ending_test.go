package quota_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/desk/quota"
)

func TestClassify(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		cli, text string
		class     quota.Class
		after     time.Duration // of the reset; 0 if none is named
	}{
		{"claude-agent-acp", `Internal error: API Error: Request rejected (429): {"errorKind":"rate_limit"}`, quota.OutOfQuota, 0},
		{"claude", "Internal error: API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit", quota.Rate, 0},
		{"claude", "Claude AI usage limit reached|1772370000", quota.OutOfQuota, time.Hour},
		{"claude", "Prompt is too long", quota.FullInput, 0},
		{"claude", "authentication_failed", quota.Login, 0},
		{"claude", "529 Overloaded", quota.Overload, 0},
		{"codex-acp", `Internal error: {"message":"Quota exceeded. Check your plan.","codexErrorInfo":"usageLimitExceeded"}`, quota.OutOfQuota, 0},
		{"codex", "You've hit your usage limit. Try again in 2 days 3 hours.", quota.OutOfQuota, 51 * time.Hour},
		{"codex", "Selected model is at capacity", quota.Overload, 0},
		{"codex", `{"http_connection_failed":{"http_status_code":401}}`, quota.Login, 0},
		{"codex", `{"response_too_many_failed_attempts":{"http_status_code":429}}`, quota.Rate, 0},
		{"codex", "fleet: acp: session/prompt: Authentication required: the agent requires authentication", quota.Login, 0},
		{"claude", "fleet: acp: session/prompt: Authentication required: the agent requires authentication", quota.Login, 0},
		{"gemini", `{"code":429,"message":"You have exhausted your daily quota on this model.","retryDelay":"3600s"}`, quota.OutOfQuota, time.Hour},
		{"gemini", `{"status":"RESOURCE_EXHAUSTED"}`, quota.Rate, 0},
		{"qwen", "401 incorrect api key", quota.Login, 0},
		{"opencode", `{"error":{"type":"usage_limit_reached","resets_in_seconds":600}}`, quota.OutOfQuota, 10 * time.Minute},
		{"copilot", `{"error":{"code":"rate_limit_exceeded","message":"retry after 2 s"}}`, quota.Rate, 2 * time.Second},
		{"pi", "503: overloaded", quota.Overload, 0},
		{"pi", `{"error":{"code":"context_length_exceeded"}}`, quota.FullInput, 0},
		{"", "the process ended with exit code 1", quota.None, 0},
		{"", "", quota.None, 0},
	} {
		got := quota.Classify(tt.cli, tt.text, now)
		want := quota.Ending{Class: tt.class}
		if tt.after != 0 {
			want.Until = now.Add(tt.after)
		}
		if got != want {
			t.Errorf("%s %q: got %+v, want %+v", tt.cli, tt.text, got, want)
		}
	}

	t.Run("a time that cannot be right is none", func(t *testing.T) {
		for _, text := range []string{"usage limit, resets_in_seconds: 99999999", "usage limit reached|1000000000", "usage limit; try again at 31:70"} {
			if got := quota.Classify("codex", text, now); got.Class != quota.OutOfQuota || !got.Until.IsZero() {
				t.Errorf("%q: got %+v", text, got)
			}
		}
	})
}

func TestLastWords(t *testing.T) {
	const (
		retried = "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 17.57 seconds) Last error: 503 The server is overloaded."
		full    = "Error: 400 This model's maximum context length is 128000 tokens."
		limited = "exceeded retry limit, last status: 429 Too Many Requests, request id: req_26c5ed6400b7"
		refused = "exceeded retry limit, last status: 401 Unauthorized, request id: req_1"
		login   = "Error: Authentication failed with provider at http://127.0.0.1:41009/v1 (HTTP 401).\n  Check your key."
	)
	for _, tt := range []struct {
		cli, message, want string
		class              quota.Class
	}{
		{"copilot", retried, retried, quota.Overload},
		{"copilot", full, full, quota.FullInput},
		{"copilot-cli", login, login, quota.Login},
		{"codex", limited, limited, quota.Rate},
		{"codex-acp", refused, refused, quota.Login},
		{"codex", "The log has this line: " + limited, "", quota.None},
		{"copilot", limited, "", quota.None},
		{"copilot", "The log has this line: " + full, "", quota.None},
		{"copilot", "Error: the test fails in line 400.", "", quota.None},
		{"copilot", "Info: Request failed due to a transient API error. Retrying...", "", quota.None},
		{"claude", full, "", quota.None},
	} {
		got := quota.LastWords(tt.cli, tt.message)
		if got != tt.want {
			t.Errorf("%s, %q: got %q", tt.cli, tt.message, got)
		}
		if class := quota.Classify(tt.cli, got, time.Now()).Class; got != "" && class != tt.class {
			t.Errorf("%q: the class is %q, want %q", got, class, tt.class)
		}
	}
}
