package callers_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/lobbytest"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A lobby is a hub that other hubs call, with a project in its store.
type lobby struct{ *lobbytest.Lobby }

const (
	project  = lobbytest.Project
	frontend = lobbytest.Frontend
)

func newLobby(t *testing.T, change func(*peers.Options)) *lobby {
	t.Helper()
	return &lobby{lobbytest.New(t, change)}
}

func (l *lobby) token(t *testing.T, n callers.NewToken) string {
	t.Helper()
	token, _, err := l.MintToken(t.Context(), l.Boss, n)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var (
	reads  = []string{"cacp/project/get", "cacp/project/list", "cacp/contract/get", "cacp/contract/list", "cacp/context/list", "cacp/context/getThread", "cacp/implementation/getStatus", "cacp/file/listRequests"}
	writes = []string{"cacp/project/create", "cacp/project/join", "cacp/contract/propose", "cacp/contract/update", "cacp/contract/respond", "cacp/context/share", "cacp/context/askQuestion",
		"cacp/context/recordDecision", "cacp/implementation/start", "cacp/implementation/complete", "cacp/implementation/verify", "cacp/file/share", "cacp/file/request", "cacp/file/fulfillRequest"}
	syncs = []string{"cacp/project/sync", "cacp/repo/sync", "cacp/contract/sync", "cacp/context/sync", "cacp/peer/announce"}
	pulls = []string{"cacp/sync/projects", "cacp/sync/summary", "cacp/sync/packets", "cacp/sync/copies"}
)

// needs holds the permission of each operation of coordination, by method.
var needs = func() map[string]coord.Permission {
	out := map[string]coord.Permission{}
	for _, m := range coordination.Operations.Bind(nil) {
		out[m.Method] = m.Permission
	}
	return out
}()

// may returns those methods that a visitor may call.
func (l *lobby) may(t *testing.T, v hub.Caller, id coord.ProjectID, methods ...[]string) (out []string) {
	t.Helper()
	for _, m := range slices.Concat(methods...) {
		err := l.Admit(v, m, needs[m], id)
		if err == nil {
			out = append(out, m)
		} else if hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("%s: got %v, want a denial", m, err)
		}
	}
	return out
}

func TestTrust(t *testing.T) {
	l := newLobby(t, nil)
	key := l.Add(t, frontend, "")
	all := slices.Concat(reads, writes, syncs, pulls)
	identify := func(t *testing.T, c callers.Credentials) hub.Caller {
		t.Helper()
		v, err := l.Identify(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	t.Run("R1-063 a verified peer may do everything", func(t *testing.T) {
		v := identify(t, callers.Credentials{Bearer: key, AgentID: frontend})
		if v.Access != coord.AccessFull || v.AID != frontend {
			t.Errorf("got %+v", v)
		}
		if got := l.may(t, v, project, all); !slices.Equal(got, all) {
			t.Errorf("may only %v", got)
		}
		if got := l.may(t, v, project, []string{"acp/send", "agent/add", "cacp/invite/create", ""}); got != nil {
			t.Errorf("may %v, which is for agents of the hub", got)
		}
	})
	t.Run("R1-064 a known peer may read", func(t *testing.T) {
		known := coord.AID("aid://example.com/known@1.0.0")
		v, err := l.Peers.RegisterPeer(t.Context(), l.Boss, peers.NewPeer{AID: known, Endpoint: "https://k.example"})
		if err != nil || v.State != hub.PeerPending || v.Access != coord.AccessNone {
			t.Fatalf("registered: got %+v, %v", v, err)
		}
		if _, err := l.Identify(t.Context(), callers.Credentials{AgentID: known}); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("before it is approved: got %v", err)
		}
		if p, err := l.Peers.ApprovePeer(t.Context(), l.Boss, known); err != nil || p.Access != coord.AccessRead {
			t.Fatalf("approved: got %+v, %v", p, err)
		}
		if got := l.may(t, identify(t, callers.Credentials{AgentID: known}), project, all); !slices.Equal(got, reads) {
			t.Errorf("may %v, want %v", got, reads)
		}
	})
	t.Run("R1-065 an unknown agent may do nothing", func(t *testing.T) {
		for name, c := range map[string]callers.Credentials{
			"nobody":              {},
			"an unknown name":     {AgentID: "aid://evil.example/x@1.0.0"},
			"an unknown key":      {Bearer: vault.KeyPrefix + "x"},
			"not a key":           {Bearer: "Basic eA=="},
			"a name that has one": {AgentID: frontend},
			"not a token":         {Token: "eyJx.eyJ.x"},
			"a token as key":      {Bearer: "eyJhbGciOiJub25lIn0.e30."},
		} {
			if v, err := l.Identify(t.Context(), c); hub.CodeOf(err) != hub.CodeUnauthenticated || v.Kind != hub.CallerGuest {
				t.Errorf("%s: got %+v, %v", name, v, err)
			}
		}
		if err := l.Admit(hub.Caller{AID: "x", Access: coord.AccessNone}, "cacp/project/get", coord.PermitRead, project); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R1-062 a key of one agent with the name of another is refused, and the journal can name it", func(t *testing.T) {
		v, err := l.Identify(t.Context(), callers.Credentials{Bearer: key, AgentID: "aid://evil.example/x@1.0.0"})
		if hub.CodeOf(err) != hub.CodeTampering || v.Kind != hub.CallerGuest || v.ID != hub.AgentID("peer:"+frontend) {
			t.Errorf("got %+v, %v", v, err)
		}
		if err := l.Source(hub.Caller{AID: frontend}, "aid://evil.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeTampering {
			t.Errorf("in the name of another: got %v", err)
		}
		if err := l.Source(hub.Caller{AID: frontend}, frontend); err != nil {
			t.Errorf("in its own name: got %v", err)
		}
	})
	t.Run("R1-061 an agent of this hub comes with its key", func(t *testing.T) {
		_, _, secret, err := l.Keys.AddAgent(t.Context(), l.Boss, hub.Agent{ID: "anna"}, keys.NewKey{})
		if err != nil {
			t.Fatal(err)
		}
		v := identify(t, callers.Credentials{Bearer: secret, AgentID: "aid://hub.example/anna@1.0.0"})
		if v.ID != "anna" || v.AID != "aid://hub.example/anna@1.0.0" || v.Kind != hub.CallerAgent {
			t.Errorf("got %+v", v)
		}
		if got, want := l.may(t, v, project, all), slices.Concat(reads, writes); !slices.Equal(got, want) {
			t.Errorf("may %v, want %v", got, want)
		}
		if _, err := l.Identify(t.Context(), callers.Credentials{Bearer: secret, AgentID: frontend}); hub.CodeOf(err) != hub.CodeTampering {
			t.Errorf("as somebody else: got %v", err)
		}
	})
	t.Run("R1-060 a legacy peer may sync from its address and do nothing else", func(t *testing.T) {
		const ref = coord.AID("agent-frontend")
		if secret := l.Add(t, ref, "10.1.2.0/24"); secret != "" {
			t.Error("it was given a key")
		}
		here := callers.Credentials{AgentID: ref, Source: netip.MustParseAddr("::ffff:10.1.2.3")}
		if got := l.may(t, identify(t, here), project, all); !slices.Equal(got, syncs) {
			t.Errorf("may %v, want %v", got, syncs)
		}
		for _, from := range []netip.Addr{netip.MustParseAddr("10.1.3.3"), netip.MustParseAddr("127.0.0.1"), {}} {
			if _, err := l.Identify(t.Context(), callers.Credentials{AgentID: ref, Source: from}); hub.CodeOf(err) != hub.CodeTampering {
				t.Errorf("from %s: got %v", from, err)
			}
		}
	})
	t.Run("R1-060 a removed peer is out", func(t *testing.T) {
		if _, err := l.Peers.RemovePeer(t.Context(), l.Boss, frontend); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Identify(t.Context(), callers.Credentials{Bearer: key}); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("got %v", err)
		}
		if again := l.Add(t, frontend, ""); again == key {
			t.Error("the old key is back")
		}
	})
	t.Run("R1-060 a stored peer calls only as its row permits", func(t *testing.T) {
		const aid = coord.AID("aid://stored.example/peer@1.0.0")
		secret := vault.NewSecret()
		store := func(t *testing.T, p hub.Peer) {
			t.Helper()
			p.AID, p.Endpoint, p.AddedAt = aid, "https://stored.example", coord.InstantAt(l.Now)
			if err := l.Store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutPeer(p) }); err != nil {
				t.Fatal(err)
			}
		}
		withKey := callers.Credentials{Bearer: secret, AgentID: aid}
		withoutKey := callers.Credentials{AgentID: aid, Source: netip.MustParseAddr("10.1.2.3")}
		for _, c := range []struct {
			rule  string
			peer  hub.Peer
			shows callers.Credentials
			in    bool
		}{
			{"an approved peer calls with its key", hub.Peer{State: hub.PeerApproved, Access: coord.AccessFull}, withKey, true},
			{"a pending peer does not call with its key", hub.Peer{State: hub.PeerPending, Access: coord.AccessFull}, withKey, false},
			{"a removed peer does not call with its key", hub.Peer{State: hub.PeerRemoved, Access: coord.AccessFull}, withKey, false},
			{"a peer that has a key does not read without it", hub.Peer{State: hub.PeerApproved, Access: coord.AccessRead}, withoutKey, false},
			{"a peer that has a key does not sync without it from its address", hub.Peer{State: hub.PeerApproved, Access: coord.AccessNone, Legacy: "10.1.2.0/24"}, withoutKey, false},
		} {
			t.Run(c.rule, func(t *testing.T) {
				c.peer.KeyHash = hub.HashSecret(secret)
				store(t, c.peer)
				v, err := l.Identify(t.Context(), c.shows)
				if c.in && (err != nil || v.AID != aid) {
					t.Errorf("got %+v, %v", v, err)
				}
				if !c.in && (hub.CodeOf(err) != hub.CodeUnauthenticated || v.Kind != hub.CallerGuest) {
					t.Errorf("got %+v, %v, want a guest", v, err)
				}
			})
		}
	})
	t.Run("R1-060 only the operator decides about peers", func(t *testing.T) {
		anna := hub.Caller{ID: "anna"}
		_, _, add := l.Peers.AddPeer(t.Context(), anna, peers.NewPeer{AID: "x", Endpoint: "https://x.example"})
		_, approve := l.Peers.ApprovePeer(t.Context(), anna, frontend)
		_, remove := l.Peers.RemovePeer(t.Context(), anna, frontend)
		_, list := l.Peers.Peers(t.Context(), anna)
		_, invites := l.Peers.Invites(t.Context(), anna, "")
		_, _, invite := l.Peers.Invite(t.Context(), anna, peers.NewInvite{Project: project, Repo: "frontend-app"})
		_, revoke := l.Peers.RevokeInvite(t.Context(), anna, "x")
		_, _, token := l.MintToken(t.Context(), anna, callers.NewToken{Agent: "a", Project: project})
		_, join := l.Peers.Join(t.Context(), anna, "INV-x", nil)
		for i, err := range []error{add, approve, remove, list, invites, invite, revoke, token, join} {
			if hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%d: got %v", i, err)
			}
		}
	})
	t.Run("R1-085 a peer that is none cannot be added", func(t *testing.T) {
		for _, n := range []peers.NewPeer{
			{AID: "", Endpoint: "https://x.example"}, {AID: "a b", Endpoint: "https://x.example"}, {AID: "x", Endpoint: "file:///etc/passwd"},
			{AID: "x", Endpoint: "https://u:p@x.example"}, {AID: "x", Endpoint: "https://x.example", Repo: "a\nb"}, {AID: "x", Endpoint: "https://x.example", From: "everywhere"},
			{AID: "x", Endpoint: "https://x.example", Key: "a\r\nX: y"},
		} {
			if _, _, err := l.Peers.AddPeer(t.Context(), l.Boss, n); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%+v: got %v", n, err)
			}
		}
		if _, _, err := l.Peers.AddPeer(t.Context(), l.Boss, peers.NewPeer{AID: "aid://hub.example/backend@1.0.0", Endpoint: "https://x.example"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("the hub itself: got %v", err)
		}
	})
}

func TestProjectTokens(t *testing.T) {
	l := newLobby(t, nil)
	all := slices.Concat(reads, writes, syncs, pulls)
	t.Run("R1-068 a token permits what it says, in its project", func(t *testing.T) {
		token := l.token(t, callers.NewToken{Agent: frontend, Project: project, Repo: "r2", Permissions: []coord.Permission{coord.PermitRead, coord.PermitPropose}})
		v, err := l.Identify(t.Context(), callers.Credentials{Token: token, AgentID: frontend})
		if err != nil || v.AID != frontend || v.Scope[0].Project != project {
			t.Fatalf("got %+v, %v", v, err)
		}
		if got, want := l.may(t, v, project, all), slices.Concat(reads, []string{"cacp/contract/propose", "cacp/contract/update"}); !slices.Equal(got, want) {
			t.Errorf("may %v, want %v", got, want)
		}
		if got := l.may(t, v, "other", all); got != nil {
			t.Errorf("in another project: may %v", got)
		}
	})
	t.Run("R1-068 no token permits to sync, or to call methods for agents of the hub", func(t *testing.T) {
		if _, _, _, err := l.Keys.AddAgent(t.Context(), l.Boss, hub.Agent{ID: "anna"}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
		for _, holder := range []coord.AID{frontend, "aid://hub.example/anna@1.0.0"} {
			v, err := l.Identify(t.Context(), callers.Credentials{Bearer: l.token(t, callers.NewToken{Agent: holder, Project: project, Permissions: coord.Permissions})})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.may(t, v, project, syncs, pulls, []string{"acp/send", "cacp/invite/create"}); got != nil {
				t.Errorf("%s: may %v", holder, got)
			}
		}
	})
	t.Run("R1-068 a token narrows what a key permits", func(t *testing.T) {
		key := l.Add(t, frontend, "")
		token := l.token(t, callers.NewToken{Agent: frontend, Project: project, Permissions: []coord.Permission{coord.PermitRead}})
		v, err := l.Identify(t.Context(), callers.Credentials{Bearer: key, Token: token, AgentID: frontend})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.may(t, v, project, all); !slices.Equal(got, reads) {
			t.Errorf("may %v, want %v", got, reads)
		}
		other := l.token(t, callers.NewToken{Agent: "aid://example.com/other@1.0.0", Project: project})
		if _, err := l.Identify(t.Context(), callers.Credentials{Bearer: key, Token: other}); hub.CodeOf(err) != hub.CodeTampering {
			t.Errorf("with the token of another: got %v", err)
		}
		if _, err := l.Identify(t.Context(), callers.Credentials{Token: other, AgentID: frontend}); hub.CodeOf(err) != hub.CodeTampering {
			t.Errorf("with the name of another: got %v", err)
		}
	})
	t.Run("R1-068 the claims are those of the protocol", func(t *testing.T) {
		token := l.token(t, callers.NewToken{Agent: frontend, Project: project, Repo: "r2", Life: time.Hour})
		parts := strings.Split(token, ".")
		raw, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got["jti"] == "" || got["iss"] != "aid://hub.example/backend@1.0.0" {
			t.Errorf("got %v", got)
		}
		delete(got, "jti")
		delete(got, "iss")
		want := map[string]any{
			"sub": string(frontend), "project_id": string(project), "repo_id": "r2", "iat": float64(l.Now.Unix()), "exp": float64(l.Now.Unix() + 3600),
			"permissions": []any{"project:read", "contract:propose", "contract:respond", "context:share", "implementation:update"},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("R1-068 expired, forged and foreign tokens are refused", func(t *testing.T) {
		token := l.token(t, callers.NewToken{Agent: frontend, Project: project, Life: time.Hour})
		stranger := newLobby(t, nil).token(t, callers.NewToken{Agent: frontend, Project: project})
		claims := jwt.MapClaims{"sub": string(frontend), "project_id": string(project), "permissions": []string{"project:read"}, "exp": l.Now.Add(time.Hour).Unix()}
		none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
		if err != nil {
			t.Fatal(err)
		}
		public, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("change-me-in-production"))
		if err != nil {
			t.Fatal(err)
		}
		hs512, err := jwt.NewWithClaims(jwt.SigningMethodHS512, claims).SignedString([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(token, ".")
		for name, bad := range map[string]string{
			"of another hub": stranger, "without a signature": none, "with a public secret": public, "with another algorithm": hs512,
			"cut": token[:len(token)-2], "changed": parts[0] + "." + parts[1] + "A." + parts[2], "empty": "..",
		} {
			if _, err := l.Identify(t.Context(), callers.Credentials{Token: bad}); hub.CodeOf(err) != hub.CodeUnauthenticated {
				t.Errorf("%s: got %v", name, err)
			}
		}
		l.Now = l.Now.Add(2 * time.Hour)
		if _, err := l.Identify(t.Context(), callers.Credentials{Token: token}); hub.CodeOf(err) != hub.CodeUnauthenticated || !strings.Contains(err.Error(), "expired") {
			t.Errorf("expired: got %v", err)
		}
	})
	t.Run("R1-068 claims that this hub does not make are refused although it signed them", func(t *testing.T) {
		_, made, err := l.MintToken(t.Context(), l.Boss, callers.NewToken{Agent: frontend, Project: project, Life: 10 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			rule   string
			change jwt.MapClaims
			in     bool
		}{
			{"a token of its project counts", jwt.MapClaims{}, true},
			{"a token without a project is refused", jwt.MapClaims{"project_id": ""}, false},
			{"a token without a holder is refused", jwt.MapClaims{"sub": ""}, false},
			{"a token from the future is refused", jwt.MapClaims{"iat": l.Now.Add(time.Hour).Unix()}, false},
			{"a token without an end is refused", jwt.MapClaims{"exp": nil}, false},
		} {
			t.Run(c.rule, func(t *testing.T) {
				claims := jwt.MapClaims{
					"jti": made.ID, "sub": string(frontend), "project_id": string(project), "permissions": []string{"project:read"},
					"iat": l.Now.Unix(), "exp": l.Now.Add(2 * time.Hour).Unix(),
				}
				for name, value := range c.change {
					claims[name] = value
					if value == nil {
						delete(claims, name)
					}
				}
				text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(l.Vault.TokenKey())
				if err != nil {
					t.Fatal(err)
				}
				_, err = l.Identify(t.Context(), callers.Credentials{Token: text})
				if c.in && err != nil {
					t.Errorf("got %v", err)
				}
				if !c.in && hub.CodeOf(err) != hub.CodeUnauthenticated {
					t.Errorf("got %v, want %s", err, hub.CodeUnauthenticated)
				}
			})
		}
	})
	t.Run("R1-068 a token that cannot be is not made", func(t *testing.T) {
		for name, test := range map[string]struct {
			n    callers.NewToken
			code hub.Code
		}{
			"for nobody":            {callers.NewToken{Project: project}, hub.CodeInvalid},
			"for no project":        {callers.NewToken{Agent: frontend}, hub.CodeInvalid},
			"for an unknown one":    {callers.NewToken{Agent: frontend, Project: "nowhere"}, hub.CodeNotFound},
			"for ever":              {callers.NewToken{Agent: frontend, Project: project, Life: 1000 * time.Hour}, hub.CodeInvalid},
			"with a new permission": {callers.NewToken{Agent: frontend, Project: project, Permissions: []coord.Permission{"peer:sync"}}, hub.CodeInvalid},
		} {
			if _, _, err := l.MintToken(t.Context(), l.Boss, test.n); hub.CodeOf(err) != test.code {
				t.Errorf("%s: got %v, want %s", name, err, test.code)
			}
		}
	})
}

func TestWithoutVault(t *testing.T) {
	t.Run("R1-068 without a key file there are no tokens and no invites", func(t *testing.T) {
		l := newLobby(t, func(o *peers.Options) { o.Vault = nil })
		if _, _, err := l.MintToken(t.Context(), l.Boss, callers.NewToken{Agent: frontend, Project: project}); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("token: got %v", err)
		}
		if _, _, err := l.Peers.Invite(t.Context(), l.Boss, peers.NewInvite{Project: project, Repo: "frontend-app"}); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("invite: got %v", err)
		}
	})
}

func FuzzIdentify(f *testing.F) {
	v, err := vault.Open(filepath.Join(f.TempDir(), "k"))
	if err != nil {
		f.Fatal(err)
	}
	l := &lobby{&lobbytest.Lobby{Store: storetest.Open(f, f.TempDir())}}
	l.Connect(&peers.Options{Vault: v, Self: "aid://hub.example/backend@1.0.0"})
	f.Add("cacp_sk_live_x", "aid://a/b@1.0.0", "eyJ.eyJ.x", "INV-f0ebc-x-00")
	f.Fuzz(func(t *testing.T, bearer, agent, token, invite string) {
		if v, err := l.Identify(t.Context(), callers.Credentials{Bearer: bearer, AgentID: coord.AID(agent), Token: token}); err == nil {
			t.Fatalf("somebody unknown was let in: %+v", v)
		}
		if _, err := l.Peers.Redeem(t.Context(), hub.Caller{}, federation.Redemption{Invite: invite, AID: coord.AID(agent), Endpoint: "https://x.example", Key: bearer}); err == nil {
			t.Fatalf("%q was redeemed", invite)
		}
	})
}
