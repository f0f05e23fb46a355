package main

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/server"
)

const (
	completionTime  = 500 * time.Millisecond // after which the shell gets nothing
	completionLimit = 50                     // words
)

// A source returns words that the shell may complete an argument or a flag with, each
// with a description.
type source func(ctx context.Context, c *rpc.Client) ([]cobra.Completion, error)

// described returns a word with a description, on one line and without characters that
// the shell or the terminal would act on: parts of it may be from agents.
func described[T ~string](word T, about ...string) cobra.Completion {
	text := strings.Join(strings.Fields(strings.Join(about, " ")), " ")
	return cobra.CompletionWithDesc(string(word), text)
}

func agentWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListAgents, api.None{})
	for _, p := range got.Agents {
		out = append(out, described(p.ID, string(p.Role)))
	}
	return out, err
}

// recipientWords returns the agents, and the groups of agents with an ability.
func recipientWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListAgents, api.None{})
	groups := map[string][]string{}
	for _, p := range got.Agents {
		out = append(out, described(p.ID, string(p.Role)))
		for _, ability := range p.Can {
			groups[ability] = append(groups[ability], string(p.ID))
		}
	}
	for _, ability := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, described("@"+ability, strings.Join(groups[ability], ", ")))
	}
	return out, err
}

// shortest returns the shortest id of a message.
func shortest(short mailroom.ShortIDs, m hub.Envelope) string {
	return cmp.Or(string(short[string(m.ID)]), string(m.ID))
}

func messageWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.Query, api.QueryParams{Limit: completionLimit})
	if err != nil || got.Listing == nil {
		return nil, err
	}
	for _, m := range got.Messages {
		out = append(out, described(shortest(got.ShortIDs, m), string(m.Type), "from", string(m.From)))
	}
	return out, nil
}

func handoffWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.Handoff, api.HandoffParams{Action: "list", Limit: completionLimit})
	if err != nil || got.Listing == nil {
		return nil, err
	}
	for _, h := range got.Listing.Handoffs {
		out = append(out, described(cmp.Or(string(h.ShortID), string(h.ID)), string(h.Status)+":", h.Title))
	}
	return out, nil
}

func heldWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListHeld, api.None{})
	for _, m := range got.Messages {
		out = append(out, described(shortest(got.ShortIDs, m), string(m.Type), "from", string(m.From)))
	}
	for _, h := range got.Handoffs {
		out = append(out, described(cmp.Or(string(h.ShortID), string(h.ID)), h.Title))
	}
	for _, t := range got.Teams {
		out = append(out, described(got.ShortIDs.Of(t.ID), t.Action, "in", string(t.Team)))
	}
	return out, err
}

func teamWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "list"})
	for _, t := range got.Teams {
		out = append(out, described(t.ID, t.Objective))
	}
	return out, err
}

func contractWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, coordination.ListContracts, coordination.ListContractsParams{})
	for _, k := range got.Contracts {
		out = append(out, described(k.ID, string(k.Status)+":", k.Name))
	}
	return out, err
}

func peerWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, coordination.ListPeers, coordination.None{})
	for _, p := range got.Peers {
		out = append(out, described(p.AID, string(p.State)))
	}
	return out, err
}

func rootWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListRoots, api.None{})
	for _, r := range got.Roots {
		out = append(out, described(r.Path))
	}
	return out, err
}

func undeliveredWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListUndelivered, api.None{})
	for _, u := range got.Messages {
		out = append(out, described(shortest(got.ShortIDs, u.Message), string(u.Message.Status)+":", string(u.Message.Type), "from", string(u.Message.From)))
	}
	return out, err
}

func sourceWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListSources, api.None{})
	for _, s := range got.Sources {
		out = append(out, described(s.Name, string(s.Vendor)))
	}
	return out, err
}

func scheduleWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := rpc.Call(ctx, c, api.ListSchedules, api.None{})
	for _, s := range got.Schedules {
		out = append(out, described(string(s.ID), "every", s.Every, "to", string(s.To)))
	}
	return out, err
}

func keptWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	got, err := listKeptWork(ctx, c, api.KeptParams{All: true})
	for _, k := range got.Kept {
		out = append(out, described(k.ID, string(k.Agent), k.Tree))
	}
	return out, err
}

// anyWords returns the ids of the newest things that people show: handoffs, landings and messages.
func anyWords(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
	for _, from := range []source{handoffWords, landingWords, messageWords} {
		words, of := from(ctx, c)
		if of == nil {
			out = append(out, words...)
		} else {
			err = of
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// listed returns a source of the things that an operation lists.
func listed[S, P, R, T any](o rpc.Operation[S, P, R], p P, things func(R) []T, word func(T) cobra.Completion) source {
	return func(ctx context.Context, c *rpc.Client) (out []cobra.Completion, err error) {
		got, err := rpc.Call(ctx, c, o, p)
		if err != nil {
			return nil, err
		}
		for _, t := range things(got) {
			out = append(out, word(t))
		}
		return out, nil
	}
}

var (
	landingWords = listed(api.ListLandings, api.LandingsParams{}, func(got landing.Listing) []hub.LandingEntry { return got.Entries },
		func(e hub.LandingEntry) cobra.Completion { return described(e.ID, string(e.State)+":", e.Ref) })
	checkWords = listed(api.ListChecks, api.RepositoryParams{}, func(got check.Listing) []hub.RepositoryCheck { return got.Checks },
		func(c hub.RepositoryCheck) cobra.Completion { return described(c.Name, c.Path) })
	budgetWords = listed(api.ListBudgets, api.None{}, func(got usage.BudgetList) []usage.BudgetRow { return got.Budgets },
		func(b usage.BudgetRow) cobra.Completion { return described(b.ID, string(b.Of)) })
	topicWords = listed(api.Subscribe, api.SubscribeParams{Action: "list"}, func(got api.Subscriptions) []hub.Subscription { return got.Subscriptions },
		func(s hub.Subscription) cobra.Completion { return described(s.ID, string(s.Agent)) })
	operatorWords = listed(api.ListOperators, api.None{}, func(got api.OperatorList) []api.OperatorRow { return got.Operators },
		func(o api.OperatorRow) cobra.Completion { return described(o.Name, "operator") })
	viewerWords = listed(api.WebSessions, api.None{}, func(got api.WebSessionList) []signin.Session { return got.Sessions },
		func(s signin.Session) cobra.Completion { return described(cmp.Or(s.Viewer, s.ID), s.Client) })
	targetWords = listed(api.ListTargets, api.None{}, func(got api.TargetList) []notify.TargetState { return got.Targets },
		func(t notify.TargetState) cobra.Completion { return described(t.Name, t.Way) })
	projectWords = listed(coordination.ListProjects, coordination.ListParams{Summary: true}, func(got coordination.Projects) []coordination.ListedProject { return got.Projects },
		func(p coordination.ListedProject) cobra.Completion { return described(p.ID, p.Name) })
	environmentWords = listed(coordination.ListEnvironments, coordination.ProjectParams{}, func(got contract.Environments) []contract.EnvironmentState { return got.Environments },
		func(e contract.EnvironmentState) cobra.Completion { return described(e.Name) })
	itemWords = listed(api.ListClaims, api.ClaimsParams{}, func(got api.ClaimList) []hub.ItemClaim { return got.Claims },
		func(i hub.ItemClaim) cobra.Completion { return described(i.Item, string(i.Owner)) })
)

func typeWords(context.Context, *rpc.Client) (out []cobra.Completion, err error) {
	for _, t := range hub.MessageTypes {
		out = append(out, string(t))
	}
	return out, nil
}

// argumentSources has the sources of the arguments of each command, in order.
var argumentSources = map[string][]source{
	"send": {recipientWords}, "ask": {agentWords}, "inbox": {agentWords}, "reply": {messageWords}, "show": {anyWords}, "hub forget": {messageWords},
	"approve": {heldWords}, "deny": {heldWords},
	"agent key": {agentWords}, "agent revoke": {agentWords}, "agent role": {agentWords}, "agent pause": {agentWords}, "agent resume": {agentWords}, "agent contact": {agentWords},
	"agent stop": {agentWords}, "agent restart": {agentWords}, "agent logs": {agentWords}, "agent attach": {agentWords}, "agent window": {agentWords},
	"agent wake": {agentWords}, "agent test": {agentWords}, "agent sessions": {agentWords},
	"handoff accept": {handoffWords}, "handoff reject": {handoffWords}, "handoff withdraw": {handoffWords}, "handoff complete": {handoffWords}, "handoff new": {agentWords},
	"handoff activate": {handoffWords}, "handoff close": {handoffWords}, "handoff release": {handoffWords}, "handoff workq": {handoffWords},
	"continue": {handoffWords}, "land": {handoffWords}, "land cancel": {landingWords}, "land retry": {landingWords}, "land undo": {landingWords}, "land approve": {landingWords}, "land review": {landingWords},
	"team show": {teamWords}, "team add": {teamWords, agentWords}, "team remove": {teamWords, agentWords}, "team role": {teamWords, agentWords}, "team task": {teamWords},
	"team decide": {teamWords}, "team status": {teamWords}, "team close": {teamWords}, "team archive": {teamWords}, "team log": {teamWords}, "team policy": {teamWords},
	"team document get": {teamWords}, "team document list": {teamWords}, "team document log": {teamWords}, "team document merge": {teamWords}, "team document put": {teamWords},
	"contract show": {contractWords}, "contract diff": {contractWords}, "contract respond": {contractWords}, "contract update": {contractWords}, "contract history": {contractWords},
	"contract start": {contractWords}, "contract done": {contractWords}, "contract verify": {contractWords}, "contract progress": {contractWords}, "contract use": {contractWords},
	"contract provider": {contractWords}, "contract test": {contractWords}, "contract impact": {contractWords}, "contract deprecate": {contractWords}, "contract withdraw": {contractWords},
	"contract env remove": {environmentWords}, "project show": {projectWords},
	"check show": {checkWords}, "check remove": {checkWords}, "check run": {checkWords},
	"files back": {keptWords}, "files drop": {keptWords}, "prove": {anyWords},
	"spend budget remove": {budgetWords}, "spend budget set": {agentWords}, "inbox topics remove": {topicWords},
	"peer approve": {peerWords}, "peer remove": {peerWords}, "peer sync": {peerWords}, "peer status": {peerWords},
	"hub folder remove": {rootWords}, "hub operator remove": {operatorWords}, "hub viewer end": {viewerWords},
	"events show": {sourceWords}, "events remove": {sourceWords}, "events poll": {sourceWords}, "schedule run": {scheduleWords}, "schedule remove": {scheduleWords},
	"notify test": {targetWords}, "notify replay": {targetWords},
	"workq claim": {itemWords}, "workq release": {itemWords}, "workq done": {itemWords},
}

// flagSources has the sources of flags.
var flagSources = map[string]source{"to": agentWords, "from": agentWords, "wake-from": agentWords, "agent": agentWords, "owner": agentWords, "member": agentWords, "team": teamWords, "reply-to": messageWords, "again": undeliveredWords, "handoff": handoffWords, "check": checkWords, "type": typeWords}

// messageTyped has the commands whose flag --type is that of a message.
var messageTyped = map[string]bool{"send": true, "reply": true, "log": true, "inbox": true}

// takesHubWords reports whether a flag of the command with a path is completed with words
// of the hub.
func takesHubWords(cmd *cobra.Command, path, flag string) bool {
	if _, own := cmd.GetFlagCompletionFunc(flag); own || cmd.LocalFlags().Lookup(flag) == nil {
		return false
	}
	if strings.HasPrefix(path, "peer ") {
		return false // --from of a peer is an address
	}
	return flag != "type" || messageTyped[path]
}

// complete gives all commands below root the words of the hub. Completions that a command
// has of its own stay.
func (a *app) complete(root *cobra.Command) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if sources := argumentSources[path]; sources != nil {
			own := cmd.ValidArgs
			cmd.ValidArgs = nil
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) < len(sources) {
					return a.hubWords(cmd.Context(), sources[len(args)])
				}
				return own, cobra.ShellCompDirectiveNoFileComp
			}
		}
		for flag, from := range flagSources {
			if !takesHubWords(cmd, path, flag) {
				continue
			}
			cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return a.hubWords(cmd.Context(), from)
			})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// hubWords returns the words of a source. It is silent if no hub runs, or if the hub does not
// answer soon: the shell has no place for an error.
func (a *app) hubWords(ctx context.Context, from source) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	home, err := a.homeDir()
	if err != nil || (os.Getenv("PARLEY_URL") == "" && !server.Running(home)) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, err := from(ctx, c)
	if err != nil {
		words = nil
	}
	return words[:min(len(words), completionLimit)], cobra.ShellCompDirectiveNoFileComp
}
