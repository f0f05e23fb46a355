package rpc

import (
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A Surface is the place where a caller reads a hint and acts on it.
type Surface int

// The surfaces.
const (
	Methods  Surface = iota // JSON-RPC
	Commands                // the command line
	Tools                   // MCP
)

// references are the operations that hints name, as each surface calls them. A hint
// has the name of a reference in braces, such as "{query} lists your messages"; the
// surface that shows the hint puts its own words there. This is the only place where
// those words are chosen.
var references = map[string][3]string{
	"agent.add":         {"the operator calls parley/agent/add:", "the operator runs: parley agent add", "ask your operator to run: parley agent add"},
	"agent.reset":       {"the operator calls parley/agent/reset:", "the operator runs: parley agent resume --suspension", "ask your operator to run: parley agent resume --suspension"},
	"agent.resume":      {"the operator calls parley/agent/resume:", "the operator runs: parley agent resume", "ask your operator to run: parley agent resume"},
	"agents":            {"parley/agent/list", "parley agent list", "the first answer of acp_inbox"},
	"approve":           {"the operator calls parley/approve:", "the operator runs: parley approve", "ask your operator to run: parley approve"},
	"as_operator":       {"call it with the operator's key", "run it on a terminal without PARLEY_KEY, or with --as-operator", "ask your operator to do it"},
	"artifact.get":      {"GET /artifacts/", "parley artifact get", "`parley artifact get` in a shell:"},
	"artifact.put":      {"POST /artifacts", "parley artifact put FILE", "name a file in context.artifacts (or `parley artifact put FILE` in a shell)"},
	"check.add":         {"the operator calls parley/check/add:", "the operator runs: parley check add NAME -- COMMAND", "ask your operator to run: parley check add"},
	"check.run":         {"parley/check/run", "parley check run", "`parley check run` in a shell:"},
	"check.list":        {"parley/check/list", "parley check list", "`parley check list` in a shell"},
	"check.remove":      {"the operator calls parley/check/remove:", "the operator runs: parley check remove", "ask your operator to run: parley check remove"},
	"check.trust":       {"the operator calls parley/check/trust", "the operator runs: parley check trust", "ask your operator to run: parley check trust"},
	"commit_message":    {"member commit_message", "--commit-message \"TEXT\"", "argument commit_message"},
	"contact":           {"the operator calls parley/contact/set:", "the operator runs: parley agent contact", "ask your operator to run: parley agent contact"},
	"contract.diff":     {"cacp/contract/diff", "parley contract diff", "coordinate with action contract/diff"},
	"contract.env.add":  {"parley/contract/environment/add", "parley contract env add", "ask your operator to run: parley contract env add"},
	"context.list":      {"cacp/context/list", "parley context list", "coordinate with action context/list"},
	"contract.list":     {"cacp/contract/list", "parley contract list", "coordinate with action contract/list"},
	"contract.propose":  {"cacp/contract/propose", "parley contract propose", "coordinate with action contract/propose"},
	"contract.provider": {"parley/contract/provider", "parley contract provider", "coordinate with action contract/provider"},
	"contract.show":     {"cacp/contract/get", "parley contract show", "coordinate with action contract/get"},
	"contract.reply":    {"cacp/contract/respond with request_change", "parley contract respond ID request_change", "coordinate with action contract/respond and answer request_change"},
	"expect_merge":      {"member expect.merge", "--expect-merge", "argument expect with merge"},
	"handoff":           {"acp/handoff", "parley handoff", "acp_handoff"},
	"handoff.approve":   {"acp/handoff with action approve and handoff_id", "parley approve", "acp_handoff with action approve and handoff_id"},
	"handoff.check":     {"acp/handoff with action check and command NAME", "parley check run NAME", "acp_handoff with action check and command NAME"},
	"handoff.list":      {"acp/handoff with action list", "parley handoff list", "acp_handoff with action list"},
	"handoff.show":      {"acp/handoff with action show and handoff_id", "parley show", "acp_handoff with action show and handoff_id"},
	"held":              {"parley/held", "parley approve without an id", "`parley approve` in a shell"},
	"impl.start":        {"cacp/implementation/start", "parley contract start", "coordinate with action implementation/start"},
	"every.list":        {"parley/every/list", "parley schedule", "`parley schedule` in a shell"},
	"in.list":           {"parley/in/list", "parley events", "`parley events` in a shell"},
	"in.remove":         {"the operator calls parley/in/remove:", "parley events remove", "ask your operator to run: parley events remove"},
	"inbox.ack":         {"acp/inbox with ack", "parley inbox --ack-id ID", "acp_inbox with ack"},
	"no_changes":        {"no_changes", "--no-changes", "no_changes"},
	"package":           {"GET /schema/handoff-package has its rules", "parley schema print handoff-package prints its rules", "give title, summary, next_step and success_criteria instead"},
	"project.join":      {"cacp/project/join", "parley project join", "coordinate with action project/join"},
	"project.leave":     {"cacp/project/leave", "parley project leave", "coordinate with action project/leave"},
	"project.token":     {"the operator calls parley/project/token:", "the operator runs: parley project token", "ask your operator to run: parley project token"},
	"project.list":      {"cacp/project/list", "parley project list", "coordinate with action project/list"},
	"query":             {"acp/query", "parley log --whole", "acp_query"},
	"landings":          {"parley/landings/list", "parley land", "`parley land` in a shell"},
	"reviews":           {"parley/landings/reviews", "parley land --reviews", "`parley land --reviews` in a shell"},
	"release":           {"parley/reservations/release", "parley files release", "acp_files with action release"},
	"reservations":      {"parley/reservations/list", "parley files", "acp_files with action list"},
	"repo":              {"member repo", "--repo DIR", "argument worktree_path"},
	"respond":           {"acp/respond", "parley reply", "acp_respond"},
	"root.add":          {"the operator calls parley/root/add:", "the operator runs: parley hub folder add", "ask your operator to run: parley hub folder add"},
	"root.list":         {"parley/root/list", "parley hub folder", "`parley hub folder` in a shell"},
	"runs.list":         {"parley/run/list", "parley run list", "`parley run list` in a shell"},
	"same_change_as":    {"member same_change_as", "--same-change-as", "argument same_change_as"},
	"schema":            {"GET /schema/", "parley schema print ", "`parley schema print` in a shell: "},
	"send":              {"acp/send", "parley send", "acp_send"},
	"status.blocked":    {"acp/status with state blocked", "parley status blocked", "acp_status with state blocked"},
	"team.artifact":     {"acp/team with action artifact and team", "parley team document", "acp_team with action artifact and team"},
	"subscriptions":     {"acp/subscribe with action list", "parley inbox topics", "acp_subscribe with action list"},
	"team.close_anyway": {"acp/team with action close, anyway and team", "parley team close --anyway", "acp_team with action close, anyway true and team"},
	"team.list":         {"acp/team with action list", "parley team list", "acp_team with action list"},
	"team.role":         {"acp/team with action role", "parley team role", "acp_team with action role"},
	"team.show":         {"acp/team with action show and team", "parley team show", "acp_team with action show and team"},
	"team.status":       {"acp/team with action status, team and lifecycle:", "parley team status", "acp_team with action status, team and lifecycle:"},
	"team.task":         {"acp/team with action task and team", "parley team task", "acp_team with action task and team"},
	"trivial":           {"member trivial", "--trivial \"WHY\"", "argument trivial"},
	"undelivered":       {"parley/undelivered", "parley log --undelivered", "`parley log --undelivered` in a shell"},
	"unproven":          {"member unproven", "--unproven \"WHY\"", "argument unproven"},
	"workq.add":         {"workq/add", "parley workq add", "`parley workq add` in a shell:"},
	"workq.done":        {"workq/done", "parley workq done", "`parley workq done` in a shell"},
	"workq.list":        {"workq/list", "parley workq list", "`parley workq list` in a shell"},
}

var reference = pattern.New(`\{[a-z_.]+\}`)

// RenderHint returns a hint with its references in the words of a surface. Braces
// that are no reference stay as they are.
func RenderHint(hint string, s Surface) string {
	if !strings.Contains(hint, "{") {
		return hint
	}
	return reference().ReplaceAllStringFunc(hint, func(name string) string {
		if words, ok := references[name[1:len(name)-1]]; ok {
			return words[s]
		}
		return name
	})
}
