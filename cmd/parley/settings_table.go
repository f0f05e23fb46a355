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
		Help: "certificate file",
		Kind: textKind(func(to *hubSettings) *string { return &to.TLSCert }),
	},
	{
		Member: "tls_key", Variable: "PARLEY_TLS_KEY", Flag: "tls-key",
		Help: "file with the certificate's key",
		Kind: textKind(func(to *hubSettings) *string { return &to.TLSKey }),
	},
	{
		Member: "no_tls_because", Variable: "PARLEY_NO_TLS_BECAUSE", Flag: "no-tls-because",
		Help: "why this hub may listen beyond loopback without TLS",
		Kind: textKind(func(to *hubSettings) *string { return &to.NoTLSBecause }),
	},
	{
		Member: "hosts", Variable: "PARLEY_HOSTS",
		Help: "further host names in requests to the hub",
		Kind: wordsKind(func(to *hubSettings) *[]string { return &to.Hosts }, plainWord),
	},
	{
		Member: "log_format", Variable: "PARLEY_LOG_FORMAT", Flag: "log-format",
		Help:    "text or json",
		Default: "text",
		Kind:    textKind(func(to *hubSettings) *string { return &to.LogFormat }),
	},
	{
		Member: "log_level", Variable: "PARLEY_LOG_LEVEL", Flag: "log-level",
		Help:    "debug, info, warn or error",
		Default: "warn",
		Kind:    textKind(func(to *hubSettings) *string { return &to.LogLevel }),
	},
	{
		Member: "log_file", Variable: "PARLEY_LOG_FILE", Flag: "log-file",
		Help:    "file for the log, at most 4 MiB and as much of the log before",
		Default: "stderr",
		More:    "At 4 MiB it takes the place of `FILE.1` and a new one begins. A hub that another command started logs into `hub.log` in its home",
		Kind:    textKind(func(to *hubSettings) *string { return &to.LogFile }),
	},
	{
		Member: "durability", Variable: "PARLEY_DURABILITY", Flag: "durability",
		Help:    "normal or full: full survives power loss at every send",
		Default: "normal",
		Kind:    choiceKind("normal", "full", func(to *hubSettings) *bool { return &to.FullSync }),
	},
	{
		Member: "store", Variable: "PARLEY_STORE", Flag: "store",
		Help:    "address of a PostgreSQL database that hubs share, postgres://USER@HOST/NAME",
		Default: "SQLite in the home",
		More:    "See [several hubs](scaling.md). The address may go on, as in `postgres://USER@HOST:PORT/NAME?sslmode=verify-full`; one with a password is refused",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Store }),
	},
	{
		Member: "store_password_file", Variable: "PARLEY_STORE_PASSWORD_FILE", Flag: "store-password-file",
		Help:    "file with the password of the database",
		Default: "the variable PARLEY_STORE_PASSWORD",
		Kind:    textKind(func(to *hubSettings) *string { return &to.StorePasswordFile }),
	},
	{
		Member: "store_no_tls_because", Variable: "PARLEY_STORE_NO_TLS_BECAUSE", Flag: "store-no-tls-because",
		Help: "why a database beyond loopback may be used without verified TLS",
		More: "Without a reason it is refused",
		Kind: textKind(func(to *hubSettings) *string { return &to.StoreNoTLSBecause }),
	},
	{
		Member: "machine", Variable: "PARLEY_MACHINE", Flag: "machine",
		Help:    "name of the machine whose folders this hub can read",
		Default: "the name of the host",
		More:    "On a shared database roots and kept agents belong to a machine",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Machine }),
	},
	{
		Member: "lenient_from", Variable: "PARLEY_LENIENT_FROM", Flag: "lenient-from",
		Help: "ignore a claimed sender with a warning in place of refusing it",
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
		More: "A handoff that is declared unproven is refused, too",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.RequireProof }),
	},
	{
		Member: "strict_update", Variable: "PARLEY_STRICT_UPDATE", Flag: "strict-update",
		Help: "refuse the update of a contract for which no change was requested",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Coordination.StrictUpdate }),
	},
	{
		Member: "roots", Variable: "PARLEY_ROOTS", Flag: "root",
		Help: "folder that becomes a root, as with parley root add (repeatable)",
		More: "The member is a list, the variable is written like `PATH`",
		Kind: foldersKind(func(to *hubSettings) *[]string { return &to.Roots }),
	},
	{
		Member: "sla", Variable: "PARLEY_SLA", Flag: "sla",
		Help:    "how long an accepted task may take before the coordinators are told",
		Default: "24h",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.SLA }),
	},
	{
		Member: "response_time", Variable: "PARLEY_RESPONSE_TIME", Flag: "response-time",
		Help:    "how long an offer or a position waits for an answer",
		Default: "24h, which is the most",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.ResponseTime }),
	},
	{
		Member: "merge_sla", Variable: "PARLEY_MERGE_SLA", Flag: "merge-sla",
		Help:    "how long two versions of a team's artifact wait to be merged before the coordinators are told",
		Default: "4h, which is the most",
		Kind:    spanKind(func(to *hubSettings) *time.Duration { return &to.MergeSLA }),
	},
	{
		Member: "teamspaces", Variable: "PARLEY_TEAMSPACES", Flag: "teamspaces",
		Help:     "folder with the folders of teams",
		Default:  "_shared/teamspaces in the home, or in the workspace of $OPENCLAW_STATE_DIR",
		More:     "See [the folder of a team](teams.md#the-folder)",
		Kind:     folderKind(func(to *hubSettings) *string { return &to.Teamspaces }),
		Fallback: openClawTeamspaces,
	},
	{
		Member: "without", Variable: "PARLEY_WITHOUT", Flag: "without",
		Help: "parts of the protocol that are off: negotiation, disagreement, teamspaces",
		Kind: wordsKind(func(to *hubSettings) *[]hub.Feature { return &to.Without }, plainWord),
	},
	{
		Member:  "runs.keep",
		Help:    "how many [runs](run.md#records) keep their files",
		Default: "100",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Runs.Keep }),
	},
	{
		Member:  "runs.max_age",
		Help:    "how long the files of a run are kept",
		Default: "720h",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Runs.MaxAge }),
	},
	{
		Member: "repo", Variable: "PARLEY_REPO", Flag: "repo",
		Help: "repository that the hub speaks for among other hubs",
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
		Help:    "identity of the hub among other hubs: aid://domain/name@version",
		Default: "from the machine's name",
		Kind:    textKind(func(to *hubSettings) *coord.AID { return &to.Coordination.AID }),
	},
	{
		Member: "url", Variable: "PARLEY_PUBLIC_URL", Flag: "url",
		Help:    "where other hubs reach this one",
		Default: "where it listens",
		More:    "Its host is added to `hosts`",
		Kind:    textKind(func(to *hubSettings) *string { return &to.Coordination.URL }),
	},
	{
		Member: "auth", Variable: "PARLEY_AUTH", Flag: "auth",
		Help:    "enforce, or open: callers need no key for coordination, on loopback only",
		Default: "enforce",
		Kind:    choiceKind("enforce", "open", func(to *hubSettings) *bool { return &to.Coordination.Open }),
	},
	{
		Member: "peer_allow", Variable: "PARLEY_PEER_ALLOW", Flag: "peer-allow",
		Help: "networks in which peers may be though they are not public, as in 127.0.0.0/8,10.0.0.0/8",
		More: "Peers there may be without TLS, too",
		Kind: wordsKind(func(to *hubSettings) *[]netip.Prefix { return &to.Coordination.Allow }, network),
	},
	{
		Member: "exchange", Variable: "PARLEY_EXCHANGE", Flag: "exchange",
		Help: "directory of agents; without one none is asked",
		Kind: textKind(func(to *hubSettings) *string { return &to.Coordination.Exchange }),
	},
	{
		Member:  "limits.direct_per_minute",
		Help:    "messages to named recipients, per sender",
		Default: "10",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.DirectPerMinute }),
	},
	{
		Member:  "limits.broadcast_per_hour",
		Help:    "messages to everyone, per sender",
		Default: "5",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.BroadcastPerHour }),
	},
	{
		Member:  "limits.recipients",
		Help:    "recipients that one message names",
		Default: "10",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.Recipients }),
	},
	{
		Member:  "limits.thread_hops",
		Help:    "messages in a thread, and causes behind a message",
		Default: "50",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.ThreadHops }),
	},
	{
		Member: "limits.negotiation_rounds", Flag: "max-counters",
		Help:    "counters of a pair before an offer is escalated",
		Default: "3, which is the most",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.MaxCounters }),
	},
	{
		Member:  "limits.disagreement_rounds",
		Help:    "challenges of a pair before a position is escalated",
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
		Help:    "like `limits.repeats`, whatever the content",
		Default: "no such limit",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.SameType }),
	},
	{
		Member:  "limits.trips_per_day",
		Help:    "suspensions after which only the operator can lift the next",
		Default: "3",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Limits.TripsPerDay }),
	},
	{
		Member:  "limits.repeat_window",
		Help:    "the time in which repeats are counted",
		Default: "1m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.RepeatWindow }),
	},
	{
		Member:  "limits.suspend_for",
		Help:    "how long one repeat too many suspends the sender",
		Default: "5m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.SuspendFor }),
	},
	{
		Member:  "limits.cause_window",
		Help:    "how long a message that a session read counts as the cause of those it sends",
		Default: "10m",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Limits.CauseWindow }),
	},
	{
		Flag: "unsafe-limits",
		Help: "lift rate limits, for measurements on loopback only",
		More: "The hub warns of it at the start and in every answer",
		Kind: toggleKind(func(to *hubSettings) *bool { return &to.Limits.Unsafe }),
	},
	{
		Member:  "wakes.gap",
		Help:    "the time between two [turns that mail starts](agents-running.md) of one agent",
		Default: "30s",
		Kind:    lengthKind(func(to *hubSettings) *time.Duration { return &to.Wakes.Gap }),
	},
	{
		Member:  "wakes.per_hour",
		Help:    "turns that mail starts of one agent in an hour",
		Default: "20",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Wakes.PerHour }),
	},
	{
		Member:  "wakes.pair_per_hour",
		Help:    "turns that the mail of one sender starts of one agent in an hour",
		Default: "20",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Wakes.PairPerHour }),
	},
	{
		Member:  "kept",
		Help:    "processes of [agents that the hub keeps](agents-kept.md) that run at a time",
		Default: "8",
		Kind:    numberKind(func(to *hubSettings) *int { return &to.Kept }),
	},
	{
		Member: "notify",
		Help:   "[targets](notify.md) that tell people what waits for them",
		Kind:   structuresKind(func(to *hubSettings) *[]server.NotifyTarget { return &to.Notify }, notifyTarget.target),
	},
	{
		Member: "gateway",
		Help:   "an [OpenClaw gateway](openclaw.md) that the hub uses",
		Kind:   structureKind(func(to *hubSettings) **server.GatewayOptions { return &to.Gateway }, (*gatewayConfig).options),
	},
}
