package housetest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/parley-agents/parley/"

// ground lists the packages that every other may import: ideas that all floors
// need, below everything. Public packages may use them too, but their types
// appear in no exported name of those.
var ground = []string{"internal/ground/durable", "internal/ground/text/nearest", "internal/ground/text/pattern", "internal/ground/text/plaintext", "internal/ground/text/shell", "internal/ground/text/shorten", "internal/ground/strictjson"}

// nouns lists the packages that every package that may import hub may import: they hold
// the nouns that hub.Tx and hub.Entry are made of.
var nouns = []string{"hub/actions", "hub/coord"}

// layers is the map: every package with the packages of this module that it may
// import. A new package or arrow is an edit here, with the reason; scripts/housemap
// draws the map of docs/architecture.md from the imports.
var layers = map[string][]string{
	"internal/ground/strictjson":      {"internal/ground/text/nearest", "internal/ground/text/shorten"},
	"internal/ground/durable":         {},
	"internal/ground/text/shell":      {},
	"internal/ground/text/shorten":    {},
	"internal/ground/text/nearest":    {},
	"internal/ground/text/pattern":    {}, // regular expressions that a start of the program does not compile
	"internal/desk/quota":             {}, // hooks, transcripts and kept agents know an empty account by one table
	"internal/ground/text/plaintext":  {}, // every surface, and every text for people and models, cleans by one table
	"internal/ground/diff3":           {}, // the merge of texts; the artifacts of teams need it
	"internal/ground/process/stray":   {},
	"internal/ground/text/tail":       {},
	"internal/ground/process":         {},                                // runs, sessions and waiters tell a process from a later one of its number
	"internal/ground/process/confine": {"internal/ground/process/stray"}, // a command in a process of its own, confined; the one owner of Landlock
	"internal/ground/effects":         {},                                // what a shell command does to files; the one owner of the parser
	"internal/ground/attest":          {},                                // the formats of proofs for strangers: signed notes, in-toto, DSSE
	"internal/ground/git":             {},                                // git without the programs that a repository names; evidence, runs and the demo use it
	"internal/reach/clone":            {"hub", "internal/ground/git"},    // the hub's copies of repositories; checks, landings, contracts and continuations read and write repositories by it

	"internal/reach/keep": {"hub", "internal/ground/git"}, // the store of uncommitted work; it lists the files of working trees with git

	"internal/ground/checkfile":  {"hub", "internal/ground/digest", "internal/ground/strictyaml"}, // the checks of a repository's own file: the service that trusts them and "parley up" read them alike
	"internal/ground/strictyaml": {"hub"},                                                         // the configuration and files of agents; one owner of the YAML module

	// The domain, and what stands beside it for other people too.
	"internal/ground/digest":   {}, // hashes of nouns, of the hub and of coordination
	"hub/actions":              {}, // the words of the journal
	"hub/coord":                {"internal/ground/digest"},
	"hub":                      {"hub/actions", "hub/coord", "internal/ground/digest"},
	"hub/schema":               {"hub"},
	"internal/ground/briefing": {"hub"},                                                     // the text for every agent: the tools, the launch and connect give it
	"channel":                  {"hub"},                                                     // the interface of a delivery channel: others write channels, so it is public and needs nothing else
	"protocol/jsonrpc":         {"internal/ground/strictjson", "internal/ground/text/tail"}, // names that differ in case only, JSON without HTML escapes; the end of standard error
	"protocol/sandbox":         {"internal/ground/text/tail"},                               // the end of a command's output
	"protocol/report":          {"internal/ground/text/shorten"},
	"compat":                   {}, // is a new version of a schema compatible: others import it, so it needs no hub

	// The Agent Client Protocol.
	"protocol/acp/internal/wire": {},
	"protocol/acp/schema":        {},
	"protocol/acp/acpv1":         {"protocol/acp/internal/wire"},
	"protocol/acp/acpv2":         {"protocol/acp/acpv1", "protocol/acp/internal/wire"},
	"protocol/acp":               {"protocol/acp/acpv1", "protocol/acp/acpv2", "protocol/jsonrpc", "protocol/sandbox"},
	"protocol/comply/model":      {},
	"protocol/comply/fixture":    {},                                                                                                                      // what an agent under test meets must not share its mistakes
	"protocol/comply/jsont":      {"protocol/acp/schema", "protocol/sandbox"},                                                                             // the language of tests: it names versions and permission policies
	"protocol/comply/rules":      {"protocol/acp/schema", "protocol/comply/jsont", "protocol/jsonrpc"},                                                    // never the types: a bug in them must not hide one in an agent
	"protocol/comply/client":     {"protocol/acp/schema", "protocol/comply/jsont", "protocol/comply/render", "protocol/comply/rules", "protocol/jsonrpc"}, // tests of clients; not our own types, as in comply
	"protocol/comply/render":     {"protocol/comply/jsont", "protocol/comply/rules"},
	"protocol/comply":            {"protocol/acp/schema", "protocol/comply/fixture", "protocol/comply/jsont", "protocol/comply/model", "protocol/comply/render", "protocol/comply/rules", "internal/ground/process/stray", "internal/ground/text/tail", "protocol/jsonrpc", "protocol/sandbox"},

	// The one owner of the schema validator: two services ask it.
	"internal/ground/shape": {"hub", "hub/schema", "internal/ground/strictjson"},

	// The forms that hubs exchange: two services, a reach and a surface need them.
	"internal/ground/federation": {"hub"},

	// Who may write to whom, and wake whom: the mailroom and the wake machine ask, which must
	// not import each other.
	"internal/ground/contact": {"hub"},

	// Three services make and read secrets of one key file.
	"internal/ground/vault": {"hub"},

	// The two sides of a handshake: the service that identifies callers, and the client.
	"internal/ground/handshake": {"hub"},

	// The one owner of OpenTelemetry: calls, deliveries and turns are recorded where each
	// is written once.
	"internal/ground/spans": {"hub"},

	// What a hub stands on.
	"internal/engine/rows":     {"hub"}, // what the engines of the store share: statements, fields, the queue of changes
	"internal/engine/sqlite":   {"hub", "internal/ground/durable", "internal/engine/rows"},
	"internal/engine/postgres": {"hub", "internal/engine/bus", "internal/engine/rows"}, // bus: hints of other hubs go to the subscribers of this one
	"internal/engine/blobs":    {"hub"},
	"internal/engine/bus":      {"hub"},

	// How a hub goes out.
	"internal/desk/cli":       {"hub", "protocol/sandbox", "internal/ground/briefing", "internal/ground/effects", "internal/ground/text/nearest", "internal/desk/quota"},                          // sandbox: the mode of each CLI for each policy; briefing: the text that each is given; effects: the files of patches
	"internal/reach/evidence": {"hub", "protocol/report", "internal/ground/diff3", "internal/ground/effects", "internal/ground/git", "internal/ground/text/shorten", "internal/ground/text/tail"}, // reports whose claims it checks; merges of commits from before; the pathspecs of reservations; the end of a command's output

	"internal/reach/forge":     {"hub", "internal/ground/text/shorten"},                                                                                                                                 // webhooks and APIs of code hosts
	"internal/desk/transcript": {"hub"},                                                                                                                                                                 // usage in the files of CLIs; what a line says is in cli
	"internal/reach/workshop":  {"protocol/sandbox", "internal/ground/process/confine", "internal/ground/git", "internal/ground/process", "internal/ground/process/stray", "internal/ground/text/tail"}, // sandbox: the variables that hold no key

	"internal/work/fleet":    {"hub", "protocol/acp", "protocol/acp/acpv2", "protocol/report", "protocol/sandbox"},
	"internal/reach/peer":    {"hub", "internal/ground/federation", "internal/ground/text/shorten", "internal/ground/strictjson"},
	"internal/reach/notify":  {"hub", "channel", "internal/ground/text/tail"}, // people: commands and webhooks; the end of a command's output
	"internal/reach/gateway": {"hub", "channel"},                              // the channels and the queue of an OpenClaw gateway

	// Which messages are announced over which channel, when, once; the sessions of agents
	// that announcements go into, and the proof of turns.
	"internal/reach/wake": {"hub", "internal/ground/contact", "channel", "internal/ground/spans"},

	// What a hub decides. Siblings never import each other.
	"internal/service/attention":    {"hub"}, // declares what it needs of the keeper, the mailroom, the handoffs, the reservations and the disk
	"internal/service/keys":         {"hub", "internal/ground/vault"},
	"internal/service/peers":        {"hub", "internal/ground/federation", "internal/ground/vault"},
	"internal/service/callers":      {"hub", "internal/ground/handshake", "internal/ground/vault"}, // declares what it needs of keys and peers
	"internal/service/journal":      {"hub"},
	"internal/service/proof":        {"hub", "hub/coord", "internal/ground/attest", "internal/ground/shape", "internal/ground/strictjson"}, // shape: the hash of a package
	"internal/service/records":      {"hub", "internal/ground/durable", "internal/ground/shape"},                                           // envelopes in files are read as strictly as those that come in
	"internal/service/check":        {"hub", "internal/ground/checkfile", "internal/ground/effects", "internal/ground/text/tail"},          // effects: pathspecs; declares what it needs of repositories and of the runner
	"internal/service/contract":     {"hub", "internal/ground/federation", "internal/ground/digest", "internal/ground/git", "compat"},      // digest: names of pairs of contents; git: the remotes by which a repository is one of a project
	"internal/service/deliberation": {"hub"},                                                                                               // declares what it needs of the mailroom
	"internal/service/event":        {"hub", "internal/ground/text/shorten"},                                                               // declares what it needs of the mailroom and the vault
	"internal/service/folder":       {"hub", "internal/ground/durable"},
	"internal/service/handoff":      {"hub", "internal/ground/shape", "internal/ground/strictjson"},
	"internal/service/landing":      {"hub", "internal/ground/shape", "internal/ground/text/shorten", "internal/ground/text/tail"},                                                        // shape: the package of a handoff says whose review its work needs; declares what it needs of git, checks, contracts, handoffs and the mailroom
	"internal/service/mailroom":     {"hub", "internal/ground/contact", "internal/ground/durable", "internal/ground/text/nearest", "internal/ground/shape", "internal/ground/strictjson"}, // durable: inbox files
	"internal/service/reservation":  {"hub", "internal/ground/effects", "internal/ground/text/shorten"},                                                                                   // effects: what a command does to files; declares what it needs of working trees, sessions and the mailroom
	"internal/service/roots":        {"hub"},
	"internal/service/run":          {"hub", "internal/ground/text/shorten"},
	"internal/service/schedule":     {"hub", "internal/ground/text/shorten"}, // declares what it needs of the mailroom
	"internal/service/signin":       {"hub"},
	"internal/service/metrics":      {"hub"},
	"internal/service/team":         {"hub", "internal/ground/diff3"},        // declares what it needs of the mailroom
	"internal/service/usage":        {"hub"},                                 // declares what it needs of the mailroom
	"internal/service/keptwork":     {"hub"},                                 // declares the store of content that it needs
	"internal/service/continuation": {"hub", "internal/ground/text/shorten"}, // declares what it needs of handoffs, the keeper, copies of repositories and the mailroom

	// How people and agents come in.
	// The tables of operations stand beside each other on the kernel, which
	// identifies callers by the service of that name.
	"internal/operation/rpc": {"hub", "protocol/jsonrpc", "internal/ground/handshake", "internal/ground/spans", "internal/ground/strictjson", "internal/service/callers"},
	"internal/operation/api": {
		"hub", "internal/ground/contact", "internal/ground/federation", // peers that wait for a person
		"internal/ground/shape", "internal/ground/strictjson", "internal/operation/rpc", "internal/service/attention", "internal/service/metrics", "internal/service/deliberation", "internal/service/handoff", "internal/service/journal", "internal/service/keys", "internal/service/mailroom",
		"internal/service/check", "internal/service/continuation", "internal/service/keptwork", "internal/service/landing", "internal/service/proof", "internal/service/records", "internal/service/reservation", "internal/service/roots", "internal/service/run", "internal/service/signin", "internal/service/team", "internal/service/usage",
		"internal/reach/gateway", "internal/reach/notify", // the report of a probe; the states of targets
		"internal/reach/forge", "internal/service/event", "internal/service/schedule", // forge: the address of a vendor's API
		"internal/work/keeper", "internal/reach/wake", // wake/ operations: their parameters are those of the machine
		"internal/work/run", "protocol/sandbox", // recordings of runs and runs again: the files of runs, and the permissions of an agent
	},
	// The paths that are no operations. Their pages call one service each and write its answer.
	"internal/surface/routes": {
		"hub", "hub/schema", "internal/ground/federation", "internal/ground/handshake", "internal/ground/vault", "internal/operation/api", "internal/operation/coordination", "internal/operation/rpc", "internal/reach/gateway", "internal/reach/peer",
		"internal/service/journal", "internal/service/landing", "internal/service/mailroom", "internal/service/metrics", "internal/service/peers", "internal/service/proof", "internal/service/signin", "internal/surface/mcptools", "internal/surface/web", // web: the figures on the page
	},
	"internal/surface/intake":         {"hub", "internal/reach/forge", "internal/service/event"}, // webhooks: signatures and forms of vendors
	"internal/operation/coordination": {"hub", "compat", "internal/ground/federation", "internal/ground/text/shorten", "internal/ground/strictjson", "internal/operation/rpc", "internal/service/callers", "internal/service/contract", "internal/service/keys", "internal/service/peers"},
	"internal/surface/mcptools": {
		"hub", "protocol/jsonrpc", "internal/ground/briefing", "internal/work/keeper", "internal/ground/text/shorten", "internal/ground/spans", "internal/operation/rpc", "internal/operation/api", "internal/operation/coordination", "internal/service/deliberation", "internal/service/handoff", "internal/service/mailroom", "internal/service/reservation", "internal/service/team", "internal/service/usage",
	},

	// Pages read and change by the tables alone; the packages below them are for the
	// types of results.
	"internal/surface/web": {
		"hub", "internal/ground/text/shorten", "internal/ground/strictjson", "internal/operation/rpc", "internal/operation/api", "internal/operation/coordination", "internal/service/attention", "internal/service/metrics", "internal/service/signin",
		"internal/service/check", "internal/service/continuation", "internal/service/event", "internal/service/keptwork", "internal/service/landing", "internal/service/contract", "internal/service/handoff", "internal/service/mailroom", "internal/service/proof", "internal/service/reservation", "internal/service/team", "internal/service/usage", "internal/ground/federation", "internal/reach/notify", "internal/reach/wake", "internal/work/keeper", "internal/work/run", "protocol/sandbox",
		"internal/ground/diff3", // texts in conflict, for the form that merges them
	},

	// Asks the hub before an agent over ACP changes files: runs and kept agents need it. It knows
	// the questions and answers of the service, and calls it through a function.
	"internal/work/acpguard": {"hub", "protocol/acp", "protocol/sandbox", "internal/service/reservation"},

	// A run from start to verdict, and its files: it starts the agent and checks the
	// report, so it stands above both. It declares the hub that it needs.
	"internal/work/run": {"hub", "internal/work/acpguard", "protocol/acp", "protocol/acp/acpv1", "protocol/acp/acpv2", "protocol/jsonrpc", "protocol/report", "protocol/sandbox", "internal/ground/durable", "internal/ground/git", "internal/ground/process", "internal/ground/text/shorten", "internal/ground/process/stray", "internal/ground/strictjson", "internal/desk/cli", "internal/reach/evidence", "internal/work/fleet"}, // cli: the mode of each agent for each policy

	// Agents that the hub runs: each turn is a run, each agent a waiter of the wake machine.
	"internal/work/keeper": {"hub", "internal/work/acpguard", "protocol/acp", "protocol/acp/acpv1", "protocol/acp/acpv2", "channel", "protocol/jsonrpc", "protocol/report", "protocol/sandbox", "internal/desk/quota", "internal/ground/text/shorten", "internal/ground/spans", "internal/desk/cli", "internal/work/fleet", "internal/reach/wake", "internal/work/run", "internal/service/reservation", "internal/service/roots"}, // roots: the folders that hold the hub's keys; cli: agents whose permissions are not refused; reservation: the types of questions about files

	// What puts it together, and the command.
	"server": { // cli and transcript: the usage in the files that a hook names
		"hub", "channel", "internal/ground/federation", "internal/ground/git", "internal/ground/handshake", "internal/ground/process", "internal/ground/process/confine", "internal/ground/spans", "internal/ground/vault", "internal/desk/home", "internal/engine/sqlite", "internal/engine/postgres", "internal/engine/blobs", "internal/engine/bus",
		"internal/service/attention", "internal/service/callers", "internal/service/check", "internal/service/continuation", "internal/service/contract", "internal/service/deliberation", "internal/service/event", "internal/service/folder", "internal/service/handoff", "internal/service/journal", "internal/service/keptwork", "internal/service/keys", "internal/service/landing", "internal/service/mailroom", "internal/service/metrics", "internal/service/peers",
		"internal/service/proof", "internal/service/records", "internal/service/reservation", "internal/service/roots", "internal/service/run", "internal/service/schedule", "internal/service/signin", "internal/service/team", "internal/service/usage",
		"internal/reach/clone", "internal/reach/evidence", "internal/reach/gateway", "internal/reach/keep", "internal/reach/notify", "internal/reach/peer", "internal/reach/wake", "internal/reach/workshop",
		"internal/desk/cli", "internal/desk/transcript", "internal/work/acpguard", "internal/work/fleet", "internal/work/keeper", "internal/work/run",
		"internal/operation/rpc", "internal/operation/api", "internal/operation/coordination", "internal/surface/intake", "internal/surface/mcptools", "internal/surface/routes", "internal/surface/web",
	},
	// The home of a hub as a folder: a running hub and commands without one open, copy and verify it.
	"internal/desk/home": {"hub", "internal/ground/durable", "internal/engine/sqlite", "internal/engine/postgres", "internal/engine/blobs", "internal/service/proof", "internal/service/records"},
	// The view of a hub in a terminal: a client of the tables, as every command.
	"internal/desk/watch": {"hub", "internal/service/attention", "internal/service/handoff", "internal/service/mailroom", "internal/operation/rpc", "internal/operation/api", "internal/operation/coordination"},
	// The windows of editors on kept agents.
	"internal/desk/window": {"hub", "protocol/acp", "protocol/acp/acpv1", "protocol/acp/acpv2", "protocol/jsonrpc", "internal/work/keeper", "internal/operation/api", "internal/operation/rpc"}, // keeper: the types of events
	// The demos use a hub as every program can: the server and the typed client.
	"internal/desk/demo": {"protocol/acp", "protocol/acp/acpv2", "compat", "hub", "internal/ground/federation", "internal/ground/git", "internal/work/keeper", "protocol/sandbox", "server", "internal/service/contract", "internal/service/reservation", "internal/service/team", "internal/operation/rpc", "internal/operation/api", "internal/operation/coordination"},
	// Programs behind commands. They print nothing and call the hub as every client does.
	"internal/desk/osservice": {"hub", "internal/ground/durable", "server"}, // server: whether a hub runs in a home, and how long its end takes
	"internal/desk/upgrade":   {"hub", "internal/ground/durable"},           // another release in the place of the program
	"internal/desk/connect":   {"hub", "internal/ground/durable", "internal/ground/text/shell", "internal/desk/cli", "internal/operation/api", "internal/operation/rpc", "server"},
	"internal/desk/guard":     {"hub", "internal/ground/durable", "internal/ground/effects", "internal/ground/git", "internal/ground/text/shell", "internal/desk/cli", "internal/service/reservation"}, // reservation: the types of questions and answers
	"internal/desk/launch": { // above connect, which writes the entries of a CLI that takes none by flags; above guard, which one hook process asks beside the report
		"hub", "channel", "internal/ground/briefing", "internal/desk/connect", "internal/ground/durable", "internal/desk/guard", "internal/ground/process", "internal/desk/quota", "internal/desk/cli", "internal/work/fleet", "internal/reach/wake",
		"internal/desk/transcript", "internal/service/reservation", "internal/service/usage", "internal/operation/api", "internal/operation/rpc", // usage: the form of reports
	},
	"internal/desk/initrepo":     {"hub", "internal/ground/checkfile", "internal/ground/durable", "internal/ground/git", "internal/ground/text/pattern", "internal/operation/api", "internal/operation/rpc"},
	"internal/desk/up":           {"hub", "internal/ground/checkfile", "internal/work/keeper", "internal/desk/cli", "internal/service/team", "internal/ground/strictyaml", "internal/operation/api", "internal/operation/rpc", "protocol/sandbox"}, // keeper, team and sandbox: the types of parameters
	"internal/desk/contractfile": {"compat", "hub", "internal/service/contract", "internal/ground/strictyaml", "internal/operation/coordination", "internal/operation/rpc"},                                                                        // contract: the types of parameters
	// Services for the results that commands print (access: profiles of agents).
	"cmd/parley": {
		"hub", "internal/ground/contact", "internal/ground/federation", "hub/schema", "server", "internal/desk/connect", "internal/desk/contractfile", "internal/desk/demo", "internal/desk/guard", "internal/desk/initrepo", "internal/desk/launch", "internal/desk/osservice", "internal/ground/strictyaml", "internal/desk/up", "internal/desk/upgrade", "internal/desk/watch", "internal/ground/durable", "internal/ground/shape", "internal/desk/cli", "internal/service/attention", "internal/service/check", "internal/service/continuation", "internal/service/event", "internal/service/keptwork", "internal/service/landing", "internal/service/metrics", "internal/service/schedule", "internal/service/contract", "internal/service/deliberation", "internal/service/handoff", "internal/service/keys", "internal/service/mailroom", "internal/ground/attest", "internal/service/proof", "internal/service/records", "internal/service/reservation", "internal/service/signin", "internal/service/team", "internal/service/usage",
		"internal/operation/rpc", "internal/operation/api", "internal/operation/coordination", "internal/surface/mcptools", "protocol/report", "compat", "protocol/acp", "protocol/comply", "protocol/comply/client", "protocol/comply/fixture", "protocol/comply/model", "protocol/comply/rules", "protocol/jsonrpc", "protocol/sandbox",
		"internal/work/acpguard", "internal/ground/process/confine", "internal/work/run", "internal/work/keeper", "internal/desk/window", "internal/work/fleet", "internal/ground/vault", // the look of an operator's key
		"internal/reach/gateway", "internal/reach/notify", // the report of a probe, and the words of its configuration; the report of a test
		"internal/ground/git",                                                        // the commits of can-merge
		"internal/ground/process", "internal/reach/wake", "internal/ground/briefing", // hubs that outlive a command; the results of wakes; the line that connect writes
	},

	// Programs to read and to copy from.
	"examples/echo-agent":     {"protocol/acp", "protocol/acp/acpv2"},
	"examples/minimal-client": {"protocol/acp", "protocol/sandbox"},

	// Conformance suites, agents and hubs for tests. Only tests import these.
	"internal/testing/hubtest":     {"hub", "internal/testing/patience"},
	"internal/testing/acptest":     {},
	"internal/testing/doctable":    {},
	"internal/testing/patience":    {},
	"internal/testing/gatewaytest": {"internal/testing/acptest", "internal/testing/patience"},
	"internal/testing/pgtest":      {"internal/testing/patience"},
	"internal/testing/storetest":   {"hub", "internal/engine/postgres", "internal/engine/sqlite", "internal/testing/pgtest"},
	"internal/testing/lobbytest":   {"hub", "internal/service/callers", "internal/service/keys", "internal/service/peers", "internal/testing/storetest", "internal/ground/vault"},
	"internal/testing/reftest":     {},
	"internal/testing/hostiletest": {}, // over HTTP alone, so that tests of every surface can use it
	"internal/testing/tokentest":   {}, // the one owner of the tokenizer

	// The agent that the compliance tests are tested with: our own agent side, told
	// what to do in the words of the scripted model. Only tests and tools import it.
	"internal/testing/goodagent":  {"protocol/acp", "protocol/acp/acpv1", "protocol/acp/acpv2", "protocol/comply/model", "protocol/jsonrpc", "protocol/sandbox"},
	"internal/testing/plainagent": {"protocol/comply/model"},
	"internal/testing/goodclient": {}, // on the standard library alone
	"internal/testing/proof":      {"protocol/comply", "protocol/comply/rules", "internal/testing/goodagent", "internal/testing/plainagent"},

	// Packages without code of the program: benchmarks, and tests of the repository.
	"internal/bench":     {},
	"internal/housetest": {},

	// Tools for those who work on Parley.
	"scripts/acpgen":      {},
	"scripts/agentsdoc":   {"protocol/comply", "protocol/comply/rules"},
	"scripts/clientsdoc":  {"protocol/comply", "protocol/comply/rules"},
	"scripts/conformance": {},
	"scripts/compliance":  {"protocol/comply", "protocol/comply/client", "protocol/comply/rules", "internal/testing/goodagent"},
	"scripts/density":     {},
	"scripts/goodclient":  {"internal/testing/goodclient"},
	"scripts/housemap":    {},
	"scripts/keptclient":  {"hub", "internal/work/keeper", "internal/operation/api", "internal/operation/rpc", "protocol/sandbox", "server"},
	"scripts/goodagent":   {"internal/testing/goodagent", "internal/testing/plainagent"},
	"scripts/prices":      {},
	"scripts/plugins":     {"internal/ground/briefing"}, // the rules for every agent, in the skill
	"scripts/mutants":     {"protocol/comply", "internal/testing/goodagent", "internal/testing/proof"},
	"scripts/recording":   {},
	"scripts/release":     {},
}

// owners says which packages may import a module of somebody else. Tests may
// import what they compare with.
var owners = map[string][]string{
	"github.com/ncruces/go-sqlite3":            {"internal/engine/sqlite", "internal/testing/storetest"},
	"github.com/jackc/pgx/v5":                  {"internal/engine/postgres", "internal/testing/pgtest"},
	"github.com/gofrs/flock":                   {"internal/engine/sqlite", "internal/work/keeper", "internal/desk/launch", "internal/desk/upgrade"},
	"github.com/landlock-lsm/go-landlock":      {"internal/ground/process/confine"},
	"github.com/aymanbagabas/go-udiff":         {"internal/surface/web"},
	"github.com/modelcontextprotocol/go-sdk":   {"internal/surface/mcptools"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/ground/shape", "protocol/comply/rules", "compat"}, // comply and compat must not depend on a hub
	"github.com/golang-jwt/jwt/v5":             {"internal/service/callers"},
	"github.com/go-json-experiment/json":       {"protocol/acp/internal/wire", "protocol/comply/jsont", "protocol/jsonrpc", "internal/ground/shape", "internal/ground/strictjson", "internal/operation/rpc", "internal/operation/api", "internal/operation/coordination"},
	"github.com/prometheus/client_golang":      {"internal/surface/routes"},
	"github.com/prometheus/client_model":       {"internal/surface/routes"}, // the counts of the module above, as the page shows them
	"go.opentelemetry.io/otel":                 {"internal/ground/spans"},
	"go.opentelemetry.io/proto/otlp":           {"internal/ground/spans"},
	"google.golang.org/protobuf":               {"internal/ground/spans"}, // the form in which the modules above send
	"github.com/tailscale/hujson":              {"internal/desk/cli"},
	"github.com/coder/websocket":               {"internal/reach/gateway", "internal/desk/cli", "internal/testing/gatewaytest"},
	"charm.land/bubbletea/v2":                  {"internal/desk/watch"},
	"github.com/charmbracelet/x/ansi":          {"internal/desk/watch"}, // the width of text, as the module above measures it
	"github.com/spf13/cobra":                   {"cmd/parley"},
	"github.com/spf13/pflag":                   {"cmd/parley"},             // the flags of the module above
	"golang.org/x/mod":                         {"internal/ground/attest"}, // signed notes and Merkle trees

	"github.com/secure-systems-lab/go-securesystemslib": {"internal/ground/attest"}, // DSSE
	"mvdan.cc/sh/v3":                   {"internal/ground/effects"},
	"go.yaml.in/yaml/v3":               {"internal/ground/strictyaml", "compat"}, // compat must not depend on a hub, and reads values of any form
	"golang.org/x/term":                {"cmd/parley"},
	"github.com/tiktoken-go/tokenizer": {"internal/testing/tokentest"},
}

func TestLayers(t *testing.T) {
	imported := packages(t)
	for pkg, imports := range imported {
		allowed, ok := layers[pkg]
		if !ok {
			t.Errorf("package %s is not on the map", pkg)
			continue
		}
		for _, imp := range imports {
			switch {
			case strings.HasPrefix(imp, module):
				to := strings.TrimPrefix(imp, module)
				noun := slices.Contains(nouns, to) && slices.Contains(allowed, "hub")
				if !noun && !slices.Contains(allowed, to) && !slices.Contains(ground, to) {
					t.Errorf("%s imports %s: there is no such arrow on the map", pkg, to)
				}
			case strings.Contains(strings.Split(imp, "/")[0], "."):
				if !owned(imp, pkg) {
					t.Errorf("%s imports %s: it is not an owner of that module", pkg, imp)
				}
			}
		}
	}
	for pkg := range layers {
		if _, ok := imported[pkg]; !ok {
			t.Errorf("package %s is on the map but does not exist", pkg)
		}
	}
}

// TestProtocolWing holds that the packages of protocol import the ground alone, and of the ground nothing
// that knows a hub: they are to become a module of their own.
func TestProtocolWing(t *testing.T) {
	imported := packages(t)
	seen := map[string]bool{}
	var walk func(pkg, path string)
	walk = func(pkg, path string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, imp := range imported[pkg] {
			to, isOurs := strings.CutPrefix(imp, module)
			if !isOurs {
				continue
			}
			if !strings.HasPrefix(to, "protocol/") && !strings.HasPrefix(to, "internal/ground/") {
				t.Errorf("%s imports %s: the protocol's packages need the ground alone", path, to)
				continue
			}
			walk(to, path+" -> "+to)
		}
	}
	for pkg := range imported {
		if strings.HasPrefix(pkg, "protocol/") {
			walk(pkg, pkg)
		}
	}
	if len(seen) == 0 {
		t.Error("no package of the protocol was found")
	}
}

// TestGitHasOneDoor holds that internal/ground/git alone starts git: it decides which programs git
// may run in turn. Scripts work in this repository.
func TestGitHasOneDoor(t *testing.T) {
	starts := regexp.MustCompile(`exec\.Command(Context)?\([^)]*"git"`)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "scripts" || (strings.HasPrefix(d.Name(), ".") && name != ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || filepath.ToSlash(filepath.Dir(name)) == "internal/ground/git":
			return nil
		}
		text, err := os.ReadFile(name)
		if starts.Match(text) {
			t.Errorf("%s starts git without internal/ground/git", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMessagesHaveOnePath holds that one function stores messages, whoever writes them: save,
// in the file with the path of a message.
func TestMessagesHaveOnePath(t *testing.T) {
	const file = "internal/service/mailroom/path.go"
	calls := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && name != ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		n := strings.Count(string(text), "tx.AddMessage(")
		if n > 0 && filepath.ToSlash(name) != file && !strings.HasPrefix(filepath.ToSlash(name), "internal/testing/hubtest/") {
			t.Errorf("%s stores a message beside %s", name, file)
		}
		calls += n
		return err
	})
	if err != nil || calls == 0 {
		t.Errorf("%d calls of AddMessage were found (%v)", calls, err)
	}
}

func owned(imp, pkg string) bool {
	for mod, pkgs := range owners {
		if imp == mod || strings.HasPrefix(imp, mod+"/") {
			return slices.Contains(pkgs, pkg)
		}
	}
	return false
}

// packages returns what each package imports, tests aside.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		if found[pkg] == nil {
			found[pkg] = map[string]bool{}
		}
		for _, i := range f.Imports {
			imp, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[pkg][imp] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for pkg, imports := range found {
		out[pkg] = slices.Sorted(maps.Keys(imports))
	}
	return out
}
