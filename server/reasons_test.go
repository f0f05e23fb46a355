package server_test

import (
	"strings"
	"testing"
)

// A refusal names its own reason, not the next best one.
func TestRealReasons(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.add(t, "ana", "bo")
	for _, tt := range []struct{ name, params, want, not string }{
		{"R3-014 a member that was cut from the protocol", `{"to":["bo"],"text":"hello","work_item":"W-1"}`, "work_item: the protocol has no member work_item any more", "unknown member"},
		{"R3-014 in another case", `{"to":["bo"],"text":"hello","Work_Item":"W-1"}`, "Work_Item: the protocol has no member work_item any more", "unknown member"},
		{"a misspelled type of a negotiation", `{"to":["bo"],"text":"hello","type":"task.ofer"}`, `unknown message type \"task.ofer\"`, "reply_to"},
		{"an empty payload", `{"to":["bo"],"type":"status.update","payload":{}}`, "summary is required", "payload is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := string(r.call(t, keys[0], "acp/send", tt.params).body)
			has(t, body, tt.want)
			if strings.Contains(body, tt.not) {
				t.Errorf("says %q: %s", tt.not, body)
			}
		})
	}
}
