package quota_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/desk/quota"
)

func TestSpent(t *testing.T) {
	for text, want := range map[string]bool{
		"rate_limit":           true, // StopFailure of Claude Code
		"billing_error":        true,
		"usage_limit_exceeded": true, // rollout of Codex
		`{"message":"Quota exceeded. Check your plan.","codexErrorInfo":"usageLimitExceeded"}`: true,
		`{"error":{"code":"insufficient_quota","message":"x"}}`:                                true,
		"You have exhausted your daily quota on this model.":                                   true, // Gemini over ACP
		"Your credit balance is too low":                                                       true,

		"":                      false,
		"authentication_failed": false,
		"server_overloaded":     false,
		`{"error":{"type":"rate_limit_error","message":"try again in 2 s"}}`: false,
		`{"error":{"code":"rate_limit_exceeded"}}`:                           false,
		"503: overloaded": false,
	} {
		if got := quota.Spent(text); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
}
