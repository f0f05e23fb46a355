package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/proof"
)

func (a *app) peerCommand() *cobra.Command {
	cmd := noun("peer", "Connect with other hubs (operator)", a.peerListCommand(),
		a.peerInviteCommand(), a.peerJoinCommand(), a.peerAddCommand(), a.peerFindCommand(), a.peerPublishCommand(),
		a.peerApproveCommand(),
		a.peerMove("remove", "Remove a peer; its calls are refused", coordination.RemovePeer),
		a.peerSyncCommand(), a.peerStatusCommand())
	cmd.Long = `Peers are other hubs. A change to a project on one hub reaches all of them, even after
one was offline for a while. Two hubs become peers through an invite, which exchanges
keys between them.`
	return cmd
}

func (a *app) peerInviteCommand() *cobra.Command {
	var p coordination.InviteParams
	var revoke coordination.InviteID
	var list bool
	cmd := &cobra.Command{
		Use: "invite --repo NAME", Short: "Invite another hub to a project",
		Long: `Create an invite for one repository of one project. The other hub redeems it once with
"parley peer join", within a day or the time given by --ttl. That hub may then do what
--permissions allows, for agents of its own domain.`,
		Example: `  parley peer invite --project ID --repo frontend-app
  parley peer invite --list
  parley peer invite --revoke invite-0123456789ab`,
		Args: cobra.NoArgs,
	}

	f := cmd.Flags()
	f.StringVar(&p.Repo, "repo", "", "repository that the other hub represents")
	f.BoolVar(&list, "list", false, "list the invites")
	f.StringVar(&revoke.ID, "revoke", "", "revoke the invite with this id")

	operation(a, cmd, coordination.CreateInvite, &p, func(w io.Writer, got coordination.Invited) {
		fmt.Fprintln(w, got.Text)
		fmt.Fprintf(a.err, "on the other hub, once, until %s:\n  parley peer join %s --hub %s\n", whenInstant(got.ExpiresAt), got.Text, got.Hub)
	}, listFlag(cmd, &p.Permissions, "permissions", "permitted operations (default those that a project member needs)"),
		listFlag(cmd, &p.ActsFor, "acts-for", "agent ids outside its own domain that the other hub may have or act for"),
		secondsFlag(cmd, &p.TTLS, "ttl", "lifetime of the invite (default 24h)"), a.inProject(cmd, &p.InProject))

	// --revoke and --list run in place of the call that creates an invite.
	create := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case revoke.ID != "":
			return answer(cmd.Context(), a, coordination.RevokeInvite, revoke, func(w io.Writer, got hub.Invite) { fmt.Fprintf(w, "%s is revoked\n", got.ID) })
		case list:
			return answer(cmd.Context(), a, coordination.ListInvites, coordination.InvitesParams{Project: p.Project}, writeInvites)
		}
		return create(cmd, args)
	}
	return cmd
}

func writeInvites(w io.Writer, got coordination.Invites) {
	writeList(w, "invites", "ID, PROJECT, REPOSITORY, STATE", got.Invites, func(i hub.Invite) []any {
		state := "open until " + whenInstant(i.ExpiresAt)
		switch {
		case !i.RevokedAt.IsZero():
			state = "revoked"
		case !i.RedeemedAt.IsZero():
			state = "redeemed by " + string(i.RedeemedBy)
		case !i.Live(coord.InstantAt(time.Now())):
			state = "expired"
		}
		return []any{i.ID, i.Project, i.Repo, state}
	})
}

func (a *app) peerJoinCommand() *cobra.Command {
	var p coordination.JoinHubParams
	var noClaim bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "join INVITE --hub URL", Short: "Redeem an invite from another hub",
		Long: `Redeem an invite from another hub: the hubs exchange keys and keep each other in sync
from then on. The invited repository is claimed as soon as the project arrives.`,
		Example: `  parley peer join INV-0199a-...-7f --hub https://their-hub`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Invite = args[0]
			got, err := call(cmd.Context(), a, coordination.JoinHub, p)
			if err == nil && !noClaim {
				err = a.claim(cmd.Context(), got.Project, got.ForRepo, wait)
			}
			if err != nil {
				return err
			}

			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "%s is a peer\n", got.AID)
				fmt.Fprintf(w, "project %s, repository %s\n", got.Project, got.ForRepo)
			})
		},
	}

	f := cmd.Flags()
	f.StringVar(&p.Hub, "hub", "", "address of the hub that created the invite")
	f.BoolVar(&noClaim, "no-claim", false, "do not claim the repository")
	f.DurationVar(&wait, "wait", 30*time.Second, "time to wait for the project")
	return cmd
}

// claim claims a repository of a project as soon as the project has arrived.
func (a *app) claim(ctx context.Context, project coord.ProjectID, repo string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var p coordination.ChangesParams
	for {
		got, err := call(ctx, a, coordination.ListChanges, p)
		if err == nil {
			_, err = call(ctx, a, coordination.JoinProject, coordination.JoinParams{InProject: coordination.InProject{Project: project}, Repo: repo})
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return hub.Errorf(hub.CodeUnreachable, "parley", "the project did not arrive within %s", wait).
				WithHint(`run "parley peer status" to see why; then claim the repository with "parley project join --project %s --repo %s"`, project, repo)
		case hub.CodeOf(err) != hub.CodeNotFound:
			return err
		}
		p.After, p.WaitS = &got.Next, watchWait
	}
}

func (a *app) peerAddCommand() *cobra.Command {
	var p coordination.PeerParams
	var keyFile string
	var legacy, witness bool
	cmd := &cobra.Command{
		Use: "add AID --endpoint URL --repo NAME", Short: "Add a peer without an invite",
		Long: `Add a peer that is approved at once. It gets a key, shown only once, which it must send
as a bearer token. Use --legacy for an agent that cannot send keys: it may only sync,
and only from the address given by --from.

With --witness this hub cosigns the checkpoints of the peer's journal, and asks the peer to
cosign its own, as soon as the operator of the peer has done the same. A hub that shows two
histories of its journal, or goes back to an older one, is found then. For a hub that is a
peer already, leave out --endpoint.`,
		Example: `  parley peer add aid://example.com/frontend@1.0.0 --endpoint https://front.example --repo frontend-app
  parley peer add agent-frontend-app --endpoint http://10.0.0.7:8081 --repo frontend-app --legacy --from 10.0.0.7
  parley peer add aid://example.com/frontend@1.0.0 --witness`,
		Args: cobra.ExactArgs(1),
	}

	f := cmd.Flags()
	f.StringVar(&p.Endpoint, "endpoint", "", "address of the peer")
	f.StringVar(&p.Repo, "repo", "", "the peer's repository")
	f.BoolVar(&legacy, "legacy", false, "the peer cannot send a key and may only sync")
	f.StringVar(&p.From, "from", "", "address or network of a legacy peer")
	f.StringVar(&keyFile, "peer-key-file", "", "file with the key that the peer expects from this hub")

	f.BoolVar(&witness, "witness", false, "cosign checkpoints of each other's journals")

	operation(a, cmd, coordination.AddPeer, &p, writeAdded, argument(0, &p.AID), func(context.Context, []string) error {
		if legacy != (p.From != "") {
			return usagef("--legacy and --from must be used together")
		}

		if keyFile == "" {
			return nil
		}
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return invalid(err)
		}
		p.Key = strings.TrimSpace(string(key))
		return nil
	})

	add := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		isKnown := witness && p.Endpoint == ""
		if !isKnown {
			if err := add(cmd, args); err != nil || !witness {
				return err
			}
		}
		return answer(cmd.Context(), a, api.AddWitness, api.WitnessParams{AID: coord.AID(args[0])}, func(w io.Writer, got proof.Witness) {
			fmt.Fprintf(w, "%s is a witness; the key of its log is %s\n", got.AID, got.Keys[0])
			fmt.Fprintln(w, "compare the key with the one that its operator sees: parley hub key")
		})
	}
	return cmd
}

func writeAdded(w io.Writer, got coordination.PeerAdded) {
	writePeer(w, got.PeerChanged)
	if got.Key != "" {
		fmt.Fprintf(w, "it must send this key, which is shown this once: %s\n", got.Key)
	}
}

func writePeer(w io.Writer, got coordination.PeerChanged) {
	p := got.Peer
	fmt.Fprintf(w, "%s is %s, trust %s\n", p.AID, p.State, p.Trust)
}

func (a *app) peerApproveCommand() *cobra.Command {
	var p coordination.PeerParams
	cmd := &cobra.Command{
		Use: "approve AID", Short: "Approve a peer or the agents it acts for",
		Long: `Approve a peer that registered itself. An invited peer acts for agents of its own
domain; --acts-for adds others, also for a peer that is already approved.`,
		Example: `  parley peer approve aid://front.example/hub@1.0.0 --acts-for aid://mobile.example/app@1.0.0`,
		Args:    cobra.ExactArgs(1),
	}
	return operation(a, cmd, coordination.ApprovePeer, &p, writePeer,
		argument(0, &p.AID), listFlag(cmd, &p.ActsFor, "acts-for", "agent ids outside its own domain that the peer may act for"))
}

// peerMove returns a command that changes the state of a peer.
func (a *app) peerMove(name, short string, o rpc.Operation[*coordination.Services, coordination.PeerParams, coordination.PeerChanged]) *cobra.Command {
	var p coordination.PeerParams
	cmd := &cobra.Command{Use: name + " AID", Short: short, Args: cobra.ExactArgs(1)}
	return operation(a, cmd, o, &p, writePeer, argument(0, &p.AID))
}

func (a *app) peerListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List peers", Args: cobra.NoArgs}
	return operation(a, cmd, coordination.ListPeers, &coordination.None{}, func(w io.Writer, got coordination.Peers) {
		writeList(w, "peers", "PEER, STATE, TRUST, MANIFEST, SIGNATURE, DNS, HEALTH, BEHIND, ENDPOINT", got.Peers, func(p federation.PeerStatus) []any {
			return []any{p.AID, p.State, p.Trust, p.Identity.Manifest.State, p.Identity.Signature.State, p.Identity.DNS.State, cmp.Or(p.Health, "unknown"), p.Lag, p.Endpoint}
		})
	})
}

func (a *app) peerSyncCommand() *cobra.Command {
	var p coordination.PeerParams
	cmd := &cobra.Command{Use: "sync [AID]", Short: "Sync with one or all peers now", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, coordination.SyncPeer, &p, func(w io.Writer, got coordination.PeerNames) {
		for _, id := range got.Peers {
			fmt.Fprintf(w, "comparing with %s\n", id)
		}
		if len(got.Peers) == 0 {
			fmt.Fprintln(w, "no peers")
		}
	}, argument(0, &p.AID))
}

func (a *app) peerStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status [AID]", Short: "Show the sync status of peers",
		Long: `Show how many changes each peer is behind, and why. The exit code is 1 if an approved
peer is down or behind, or if changes were refused.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := call(cmd.Context(), a, coordination.ListPeers, coordination.None{})
			if err != nil {
				return err
			}

			shown := coordination.Peers{Peers: []federation.PeerStatus{}}
			for _, p := range got.Peers {
				if len(args) == 0 || string(p.AID) == args[0] {
					shown.Peers = append(shown.Peers, p)
				}
			}
			if len(args) == 1 && len(shown.Peers) == 0 {
				return hub.Errorf(hub.CodeNotFound, "parley", "no peer with id %s", args[0]).WithHint(`run "parley peer list" to list the peers`)
			}

			// A peer that is not approved takes no part, so that it cannot fail the check.
			well := true
			for _, p := range shown.Peers {
				current := p.Health == hub.HealthUp && p.Lag == 0 && !p.CatchUp
				refused := p.DeadLetters+p.Refused > 0
				well = well && (p.State != hub.PeerApproved || (current && !refused))
			}

			return a.check(well, shown, func(w io.Writer) { writeStandings(w, shown.Peers) })
		},
	}
}

// writeIdentity writes the three checks of a peer's id, and the other reasons against trust in it.
func writeIdentity(w io.Writer, p federation.PeerStatus) {
	id := p.Identity
	fmt.Fprintf(w, "  manifest %s\n  signature %s\n  DNS entry %s\n", id.Manifest, id.Signature, id.DNS)
	if id.Listed != "" {
		fmt.Fprintf(w, "  the exchange listed it as %s\n", id.Listed)
	}
	if !id.At.IsZero() && !id.Keyed {
		fmt.Fprintln(w, "  it has not taken a key of this hub")
	}
}

func writeStandings(w io.Writer, peers []federation.PeerStatus) {
	if len(peers) == 0 {
		fmt.Fprintln(w, "no peers")
	}
	for _, p := range peers {
		fmt.Fprintf(w, "%s\n  %s, trust %s, health %s, %d changes behind\n", p.AID, p.State, p.Trust, cmp.Or(p.Health, "unknown"), p.Lag)
		writeIdentity(w, p)
		if p.CatchUp && p.State == hub.PeerApproved {
			fmt.Fprintln(w, "  everything will be compared when it answers")
		}
		if p.Fault != "" {
			fmt.Fprintf(w, "  last failure: %s\n", p.Fault)
		}
		if !p.NextTry.IsZero() {
			fmt.Fprintf(w, "  next try at %s\n", whenInstant(p.NextTry))
		}
		if p.DeadLetters > 0 {
			fmt.Fprintf(w, "  it refused %s of this hub\n", counted(p.DeadLetters, "change"))
		}
		if p.Refused > 0 {
			fmt.Fprintf(w, "  this hub refused %s of it\n", counted(p.Refused, "change"))
		}
		if p.DeadLetters+p.Refused > 0 {
			fmt.Fprintf(w, "  parley contract check names the contracts; parley peer sync %s compares again\n", p.AID)
		}
	}
}
