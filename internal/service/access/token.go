package access

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-agents/parley/hub"
)

// How long a project token lives.
const (
	defaultTokenLife = 24 * time.Hour
	maxTokenLife     = 30 * 24 * time.Hour
)

// claims is the signed content of a project token.
type claims struct {
	Project     hub.ProjectID `json:"project_id"`
	Repo        hub.RepoID    `json:"repo_id,omitempty"`
	Permissions []Permission  `json:"permissions"`
	jwt.RegisteredClaims
}

// A NewToken says which project token to make.
type NewToken struct {
	Agent       hub.AID
	Project     hub.ProjectID
	Repo        hub.RepoID
	Permissions []Permission  // default Contributor
	Life        time.Duration // default a day, at most 30
}

// MintToken makes a project token: a short-lived proof that an agent may do
// some things in one project. Only the operator may.
func (a *Access) MintToken(ctx context.Context, actor hub.Caller, t NewToken) (token string, expires hub.Instant, err error) {
	const op = "access.MintToken"
	if err := operatorOnly(op, actor); err != nil {
		return "", hub.Instant{}, err
	}
	secret, err := a.tokenSecret(op)
	if err != nil {
		return "", hub.Instant{}, err
	}
	permissions, err := checkPermissions(op, t.Permissions)
	if err != nil {
		return "", hub.Instant{}, err
	}
	switch {
	case t.Life == 0:
		t.Life = defaultTokenLife
	case t.Life < 0 || t.Life > maxTokenLife:
		return "", hub.Instant{}, hub.Errorf(hub.CodeInvalid, op, "a token lives for at most %s", maxTokenLife)
	}
	if t.Agent == "" || !t.Project.Valid() {
		return "", hub.Instant{}, hub.Errorf(hub.CodeInvalid, op, "a token is for one agent and one project")
	}
	now := a.clock()
	c := claims{Project: t.Project, Repo: t.Repo, RegisteredClaims: jwt.RegisteredClaims{
		ID: tokenID(), Issuer: string(a.self), Subject: string(t.Agent), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(t.Life)),
	}}
	for _, p := range permissions {
		c.Permissions = append(c.Permissions, Permission(p))
	}
	if token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret); err != nil {
		return "", hub.Instant{}, fmt.Errorf("access: sign a token: %w", err)
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if _, err := tx.Project(t.Project); err != nil {
			return err
		}
		_, err := tx.Append(entry(hub.At(now), actor, hub.ActionTokenMinted, string(t.Project), map[string]any{
			"agent": t.Agent, "jti": c.ID, "permissions": permissions, "expires": c.ExpiresAt.UTC().Format(time.RFC3339),
		}))
		return err
	})
	if err != nil {
		return "", hub.Instant{}, fmt.Errorf("access: token for %s: %w", t.Agent, err)
	}
	return token, hub.InstantAt(c.ExpiresAt.Time), nil
}

func tokenID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the runtime ends the program instead
	return hex.EncodeToString(b[:])
}

func (a *Access) tokenSecret(op string) ([]byte, error) {
	if a.vault == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file to sign tokens with")
	}
	return a.vault.tokens, nil
}

// readToken checks a project token: made with this hub's secret and the one
// algorithm there is, neither expired nor from the future.
func (a *Access) readToken(op, token string) (claims, error) {
	secret, err := a.tokenSecret(op)
	if err != nil {
		return claims{}, err
	}
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(a.clock))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return claims{}, hub.Errorf(hub.CodeUnauthenticated, op, "the project token has expired").
			WithHint("ask the operator for a new one: parley project token --project ID --agent NAME")
	case err != nil || c.Subject == "" || !c.Project.Valid():
		return claims{}, hub.Errorf(hub.CodeUnauthenticated, op, "the project token is not one of this hub")
	}
	return c, nil
}
