package main

import (
	"net/netip"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/server"
)

// hubSettingRows are the settings of a hub, in the order in which the page and errors list them.
var hubSettingRows = []*hubSetting{
	{
		Member: "addr", Variable: "PARLEY_ADDR", Flag: "addr",
		Help:    "address to listen on",
		Default: server.DefaultAddr + "; port 0 picks a free one",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Addr }),
	},
	{
		Member: "tls_cert", Variable: "PARLEY_TLS_CERT", Flag: "tls-cert",
		Help: "TLS certificate file",
		Kind: pathKind(func(to *hubSettings) *string { return &to.TLSCert }),
	},
	{
		Member: "tls_key", Variable: "PARLEY_TLS_KEY", Flag: "tls-key",
		Help: "file with the key of the TLS certificate",
		Kind: pathKind(func(to *hubSettings) *string { return &to.TLSKey }),
	},
	{
		Member: "no_tls_because", Variable: "PARLEY_NO_TLS_BECAUSE", Flag: "no-tls-because",
		Help: "reason to listen beyond loopback without TLS",
		Kind: textKind(func(to *hubSettings) *string { return &to.NoTLSBecause }),
	},
	{
		Member: "hosts", Variable: "PARLEY_HOSTS",
		Help: "additional host names accepted in requests to the hub",
		Kind: wordsKind(func(to *hubSettings) *[]string { return &to.Hosts }, plainWord),
	},
	{
		Member: "in_addr", Variable: "PARLEY_IN_ADDR", Flag: "in-addr",
		Help: "address to listen on for webhooks, at /in/NAME and nothing else",
		More: "Off if it is not given. See [events](events.md); beyond loopback it needs the TLS certificate",
		Kind: textKind(func(to *hubSettings) *string { return &to.InAddr }),
	},
	{
		Member: "log_format", Variable: "PARLEY_LOG_FORMAT", Flag: "log-format",
		Help:    "format of the log: text or json",
		Default: "text",
		Kind:    textKind(func(to *hubSettings) *string { return &to.LogFormat }),
	},
	{
		Member: "log_level", Variable: "PARLEY_LOG_LEVEL", Flag: "log-level",
		Help:    "level of the log: debug, info, warn or error",
		Default: "warn",
		Kind:    textKind(func(to *hubSettings) *string { return &to.LogLevel }),
	},
	{
		Member: "log_file", Variable: "PARLEY_LOG_FILE", Flag: "log-file",
		Help:    "log file of at most 4 MiB; as much again is kept of the previous log",
		Default: "stderr",
		More:    "At 4 MiB it replaces `FILE.1`, and a new file begins. A hub started by another command logs to `hub.log` in its home",
		Kind:    pathKind(func(to *hubSettings) *string { return &to.LogFile }),
	},
	{
		Member: "durability", Variable: "PARLEY_DURABILITY", Flag: "durability",
		Help:    "normal, or full to survive power loss at every send",
		Default: "normal",
		Kind:    choiceKind("normal", "full", func(to *hubSettings) *bool { return &to.FullSync }),
	},
	{
		Member: "store", Variable: "PARLEY_STORE", Flag: "store",
		Help:    "address of a PostgreSQL database, which hubs can share: postgres://USER@HOST/NAME",
		Default: "SQLite in the home",
		More:    "See [several hubs](scaling.md). The address can have more parts, as in `postgres://USER@HOST:PORT/NAME?sslmode=verify-full`; an address with a password is refused",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Store }),
	},
	{
		Member: "store_password_file", Variable: "PARLEY_STORE_PASSWORD_FILE", Flag: "store-password-file",
		Help:    "file with the database password",
		Default: "the password in $PARLEY_STORE_PASSWORD",
		Kind:    pathKind(func(to *hubSettings) *string { return &to.StorePasswordFile }),
	},
	{
		Member: "store_no_tls_because", Variable: "PARLEY_STORE_NO_TLS_BECAUSE", Flag: "store-no-tls-because",
		Help: "reason to use a database beyond loopback without verified TLS",
		More: "Without a reason the database is refused",
		Kind: textKind(func(to *hubSettings) *string { return &to.StoreNoTLSBecause }),
	},
	{
		Member: "machine", Variable: "PARLEY_MACHINE", Flag: "machine",
		Help:    "name of the machine whose folders this hub can read",
		Default: "the host name",
		More:    "In a shared database, roots and kept agents belong to a machine",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Machine }),
	},
	{
		Member: "lenient_from", Variable: "PARLEY_LENIENT_FROM", Flag: "lenient-from",
		Help: "ignore a claimed sender with a warning instead of refusing the call",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Lenient }),
	},
	{
		Member: "no_inbox_files", Variable: "PARLEY_NO_INBOX_FILES", Flag: "no-inbox-files",
		Help: "do not render inboxes as Markdown files",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.NoInboxFiles }),
	},
	{
		Member: "require_proof", Variable: "PARLEY_REQUIRE_PROOF", Flag: "require-proof",
		Help: "refuse handoffs and completions that the hub cannot check",
		More: "Handoffs that are declared unproven are refused as well",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.RequireProof }),
	},
	{
		Member: "require_checks", Variable: "PARLEY_REQUIRE_CHECKS", Flag: "require-checks",
		Help: "refuse completions without passed checks",
		More: "Also those in repositories that have no [checks](landing.md)",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Checks.Require }),
	},
	{
		Member: "strict_update", Variable: "PARLEY_STRICT_UPDATE", Flag: "strict-update",
		Help: "refuse to update a contract unless a change was requested",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Coordination.StrictUpdate }),
	},
	{
		Member: "roots", Variable: "PARLEY_ROOTS", Flag: "root",
		Help: `folder to add as a root, as with "parley hub folder add" (repeatable)`,
		More: "The member is a list; the variable has the format of `PATH`",
		Kind: foldersKind(func(to *hubSettings) *[]string { return &to.Roots }),
	},
	{
		Member: "sla", Variable: "PARLEY_SLA", Flag: "sla",
		Help:    "time limit for an accepted task before the coordinators are notified",
		Default: "24h",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.SLA }),
	},
	{
		Member: "response_time", Variable: "PARLEY_RESPONSE_TIME", Flag: "response-time",
		Help:    "time limit for an answer to an offer or a position",
		Default: "24h, the maximum",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.ResponseTime }),
	},
	{
		Member: "merge_sla", Variable: "PARLEY_MERGE_SLA", Flag: "merge-sla",
		Help:    "time limit for merging two versions of a team's artifact before the coordinators are notified",
		Default: "4h, the maximum",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.MergeSLA }),
	},
	{
		Member: "teamspaces", Variable: "PARLEY_TEAMSPACES", Flag: "teamspaces",
		Help:     "folder for the teams' folders",
		Default:  "_shared/teamspaces in the home, or in the workspace of $OPENCLAW_STATE_DIR",
		More:     "See [the folder of a team](teams.md#the-folder)",
		Kind:     pathKind(func(to *hubSettings) *string { return &to.Teamspaces }),
		Fallback: openClawTeamspaces,
	},
	{
		Member: "without", Variable: "PARLEY_WITHOUT", Flag: "without",
		Help: "parts of the protocol to switch off: negotiation, disagreement, teamspaces",
		Kind: wordsKind(func(to *hubSettings) *[]hub.Feature { return &to.Without }, plainWord),
	},
	{
		Member:  "runs.keep",
		Help:    "number of [runs](run.md#records) whose files are kept",
		Default: "100",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Runs.Keep }),
	},
	{
		Member:  "runs.max_age",
		Help:    "maximum age of a run's files",
		Default: "720h",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Runs.MaxAge }),
	},
	{
		Member: "repo", Variable: "PARLEY_REPO", Flag: "repo",
		Help: "repository that this hub represents among other hubs",
		Kind: textKind(func(to *hubSettings) *string { return &to.Coordination.Repo }),
	},
	{
		Member: "role", Variable: "PARLEY_ROLE", Flag: "role",
		Help: "role of the repository: backend, frontend, mobile, shared or infra",
		Kind: checkedKind(repoRole),
	},
	{
		Member: "language", Variable: "PARLEY_LANGUAGE", Flag: "language",
		Help: "language of the repository",
		More: "A programming language, such as go",
		Kind: textKind(func(to *hubSettings) *string { return &to.Coordination.Language }),
	},
	{
		Member: "aid", Variable: "PARLEY_AID", Flag: "aid",
		Help:    "identity of this hub among other hubs: aid://domain/name@version",
		Default: "derived from the machine's name",
		Kind:    textKind(func(to *hubSettings) *coord.AID { return &to.Coordination.AID }),
	},
	{
		Member: "url", Variable: "PARLEY_PUBLIC_URL", Flag: "url",
		Help:    "address where other hubs reach this one",
		Default: "the address it listens on",
		More:    "Its host is added to `hosts`",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Coordination.URL }),
	},
	{
		Member: "auth", Variable: "PARLEY_AUTH", Flag: "auth",
		Help:    "enforce, or open to allow coordination without a key, on loopback only",
		Default: "enforce",
		Kind:    choiceKind("enforce", "open", func(to *hubSettings) *bool { return &to.Coordination.Open }),
	},
	{
		Member: "peer_allow", Variable: "PARLEY_PEER_ALLOW", Flag: "peer-allow",
		Help: "non-public networks in which peers are allowed, such as 127.0.0.0/8,10.0.0.0/8",
		More: "Peers there do not need TLS",
		Kind: wordsKind(func(to *hubSettings) *[]netip.Prefix { return &to.Coordination.Allow }, network),
	},
	{
		Member: "exchange", Variable: "PARLEY_EXCHANGE", Flag: "exchange",
		Help: "address of an exchange, a directory of agents; by default none is contacted",
		Kind: textKind(func(to *hubSettings) *string { return &to.Coordination.Exchange }),
	},
	{
		Member:  "limits.direct_per_minute",
		Help:    "messages to named recipients per sender and minute",
		Default: "10",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.DirectPerMinute }),
	},
	{
		Member:  "limits.broadcast_per_hour",
		Help:    "messages to everyone per sender and hour",
		Default: "5",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.BroadcastPerHour }),
	},
	{
		Member:  "limits.recipients",
		Help:    "recipients named by one message",
		Default: "10",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.Recipients }),
	},
	{
		Member:  "limits.thread_hops",
		Help:    "messages in a thread, and messages in the chain of causes behind a message",
		Default: "50",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.ThreadHops }),
	},
	{
		Member: "limits.negotiation_rounds", Flag: "max-counters",
		Help:    "counters between two agents before an offer is escalated",
		Default: "3, the maximum",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.MaxCounters }),
	},
	{
		Member:  "limits.disagreement_rounds",
		Help:    "challenges between two agents before a position is escalated",
		Default: "2",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.MaxChallenges }),
	},
	{
		Member:  "limits.repeats",
		Help:    "messages with the same recipients, type and content within `limits.repeat_window`",
		Default: "3",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.Repeats }),
	},
	{
		Member:  "limits.same_type",
		Help:    "like `limits.repeats`, regardless of the content",
		Default: "no limit",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.SameType }),
	},
	{
		Member:  "limits.trips_per_day",
		Help:    "suspensions per day after which only the operator can lift the next one",
		Default: "3",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.TripsPerDay }),
	},
	{
		Member:  "limits.repeat_window",
		Help:    "period in which repeats are counted",
		Default: "1m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.RepeatWindow }),
	},
	{
		Member:  "limits.suspend_for",
		Help:    "length of a suspension for too many repeats",
		Default: "5m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.SuspendFor }),
	},
	{
		Member:  "limits.cause_window",
		Help:    "time for which a message read by a session counts as the cause of the messages that it sends",
		Default: "10m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.CauseWindow }),
	},
	{
		Flag: "unsafe-limits",
		Help: "disable rate limits, for measurements on loopback only",
		More: "The hub warns about it at startup and in every answer",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Limits.Unsafe }),
	},
	{
		Member:  "wakes.gap",
		Help:    "minimum time between two [turns that mail starts](agents-running.md) for one agent",
		Default: "30s",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Wakes.Gap }),
	},
	{
		Member:  "wakes.per_hour",
		Help:    "turns per hour that mail starts for one agent",
		Default: "20",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Wakes.PerHour }),
	},
	{
		Member:  "wakes.pair_per_hour",
		Help:    "turns per hour that mail from one sender starts for one agent",
		Default: "20",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Wakes.PairPerHour }),
	},
	{
		Member:  "continue.patience",
		Help:    "time without progress of a kept agent with successors after which one of them [continues its tasks](continue.md)",
		Default: "10m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Patience }),
	},
	{
		Member:  "reservations.idle",
		Help:    "time without a sign of life of an agent after which its reservations of files end",
		Default: "15m",
		More:    "From 1m to 24h",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Reservations.Idle }),
	},
	{
		Member:  "reservations.unreachable",
		Help:    "decision about an agent's edit while the hub does not answer: allow or deny",
		Default: "allow",
		Kind:    checkedKind(unreachable),
	},
	{
		Member:  "reservations.guard",
		Help:    "keep agents from changing files that other agents have reserved",
		Default: "true",
		Kind:    pointerKind(func(to *hubSettings) **bool { return &to.Reservations.Guard }),
	},
	{
		Member:  "checks.jobs",
		Help:    "[checks](landing.md) that run at the same time; with two or more, one repository has at most all but one",
		Default: "half of the processors, at least 2",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Checks.Jobs }),
	},
	{
		Member:  "checks.disk_gb",
		Help:    "GB that the files of a check can have, with its temporary folder; counted every 10 s, and the limit of one file",
		Default: "10",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Checks.DiskGB }),
	},
	{
		Member: "repositories",
		Help:   "[settings of single repositories](#repositories)",
		Kind:   structuresKind(func(to *hubSettings) *[]server.Repository { return &to.Repositories }, repositoryConfig.options),
	},
	{
		Member:  "kept",
		Help:    "processes of [kept agents](agents-kept.md) that can run at the same time",
		Default: "8",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Kept }),
	},
	{
		Member: "notify",
		Help:   "[targets](notify.md) that notify people of items waiting for them",
		Kind:   structuresKind(func(to *hubSettings) *[]server.NotifyTarget { return &to.Notify }, notifyTarget.target),
	},
	{
		Member: "gateway",
		Help:   "[OpenClaw gateway](openclaw.md) that the hub uses",
		Kind:   structureKind(func(to *hubSettings) **server.GatewayOptions { return &to.Gateway }, (*gatewayConfig).options),
	},
}
