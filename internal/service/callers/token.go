package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-agents/parley/hub"
)

const (
	defaultTokenLife = 24 * time.Hour
	maxTokenLife     = 30 * 24 * time.Hour
)

// claims is the signed content of a project token.
type claims struct {
	Project     hub.ProjectID    `json:"project_id"`
	Repo        hub.RepoID       `json:"repo_id,omitempty"`
	Permissions []hub.Permission `json:"permissions"`
	jwt.RegisteredClaims
}

// A NewToken describes a project token to make.
type NewToken struct {
	Agent       hub.AID
	Project     hub.ProjectID
	Repo        hub.RepoID
	Permissions []hub.Permission // default hub.Contributor
	Life        time.Duration    // default a day, at most 30
}

// MintToken makes a project token, which proves for a short time that an agent has
// some permissions in one project. Only the operator may.
func (s *Service) MintToken(ctx context.Context, actor hub.Caller, t NewToken) (token string, expires hub.Instant, err error) {
	const op = "callers.MintToken"
	if err := actor.OperatorOnly(op); err != nil {
		return "", hub.Instant{}, err
	}
	secret, err := s.tokenSecret(op)
	if err != nil {
		return "", hub.Instant{}, err
	}
	permissions, err := hub.CheckPermissions(op, t.Permissions)
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
	now := s.opts.Clock()
	c := claims{Project: t.Project, Repo: t.Repo, Permissions: permissions, RegisteredClaims: jwt.RegisteredClaims{
		ID: rand.Text(), Issuer: string(s.opts.Self), Subject: string(t.Agent), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(t.Life)),
	}}
	if token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret); err != nil {
		return "", hub.Instant{}, fmt.Errorf("callers: sign a token: %w", err)
	}
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if _, err := tx.Project(t.Project); err != nil {
			return err
		}
		_, err := tx.Append(actor.Entry(hub.At(now), hub.ActionTokenMinted, string(t.Project), map[string]any{
			"agent": t.Agent, "jti": c.ID, "permissions": permissions, "expires": c.ExpiresAt.UTC().Format(time.RFC3339),
		}))
		return err
	})
	if err != nil {
		return "", hub.Instant{}, fmt.Errorf("callers: token for %s: %w", t.Agent, err)
	}
	return token, hub.InstantAt(c.ExpiresAt.Time), nil
}

func (s *Service) tokenSecret(op string) ([]byte, error) {
	if s.opts.Vault == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file to sign tokens with")
	}
	return s.opts.Vault.TokenKey(), nil
}

// readToken returns the claims of a project token. It accepts one algorithm, this
// hub's key, and a time between issue and expiry.
func (s *Service) readToken(op, token string) (claims, error) {
	secret, err := s.tokenSecret(op)
	if err != nil {
		return claims{}, err
	}
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(s.opts.Clock))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return claims{}, hub.Errorf(hub.CodeUnauthenticated, op, "the project token has expired").
			WithHint("ask the operator for a new one: parley project token --project ID --agent NAME")
	case err != nil || c.Subject == "" || !c.Project.Valid():
		return claims{}, hub.Errorf(hub.CodeUnauthenticated, op, "the project token was not made by this hub")
	}
	return c, nil
}
