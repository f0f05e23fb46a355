package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

const (
	defaultTokenLife = 24 * time.Hour
	maxTokenLife     = 30 * 24 * time.Hour
)

// claims is the signed content of a project token.
type claims struct {
	Project     coord.ProjectID    `json:"project_id"`
	Repo        coord.RepoID       `json:"repo_id,omitempty"`
	Permissions []coord.Permission `json:"permissions"`
	jwt.RegisteredClaims
}

// A NewToken describes a project token to make.
type NewToken struct {
	Agent       coord.AID
	Project     coord.ProjectID
	Repo        coord.RepoID
	Permissions []coord.Permission // default hub.Contributor
	Life        time.Duration      // default a day, at most 30

	Evidence *coord.EvidenceBounds // required for the permission evidence
}

// MintToken makes a project token, which proves for a short time that an agent has
// some permissions in one project. Only the operator may.
func (s *Service) MintToken(ctx context.Context, actor hub.Caller, t NewToken) (string, hub.Token, error) {
	const op = "callers.MintToken"
	if err := actor.OperatorOnly(op); err != nil {
		return "", hub.Token{}, err
	}

	secret, err := s.tokenSecret(op)
	if err != nil {
		return "", hub.Token{}, err
	}
	permissions, err := hub.CheckPermissions(op, t.Permissions)
	if err != nil {
		return "", hub.Token{}, err
	}

	switch {
	case t.Life == 0:
		t.Life = defaultTokenLife
	case t.Life < 0 || t.Life > maxTokenLife:
		return "", hub.Token{}, hub.Errorf(hub.CodeInvalid, op, "a token can be valid for at most %s", maxTokenLife)
	}
	if t.Agent == "" || !t.Project.Valid() {
		return "", hub.Token{}, hub.Errorf(hub.CodeInvalid, op, "a token needs one agent and one project")
	}

	if err := t.checkEvidence(op, permissions); err != nil {
		return "", hub.Token{}, err
	}

	now := s.opts.Clock()
	c := claims{Project: t.Project, Repo: t.Repo, Permissions: permissions, RegisteredClaims: jwt.RegisteredClaims{
		ID: rand.Text(), Issuer: string(s.opts.Self), Subject: string(t.Agent), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(t.Life)),
	}}
	made := hub.Token{
		ID: c.ID, Agent: t.Agent, Project: t.Project, Permissions: permissions, By: actor.ID, CreatedAt: hub.At(now), ExpiresAt: hub.At(c.ExpiresAt.Time), Evidence: t.Evidence,
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret)
	if err != nil {
		return "", hub.Token{}, fmt.Errorf("callers: sign a token: %w", err)
	}

	// The store keeps the claims of a token, never its text.
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		p, err := tx.Coordination().Project(t.Project)
		if err != nil {
			return err
		}
		if t.Evidence != nil {
			if _, ok := p.RepoNamed(t.Evidence.Repo); !ok {
				return hub.Errorf(hub.CodeInvalid, op, "project %s has no repository named %.200q", p.ID, t.Evidence.Repo)
			}
		}
		if err := tx.AddToken(made); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(made.CreatedAt, actions.TokenMinted, string(t.Project), map[string]any{
			"agent": t.Agent, "jti": c.ID, "permissions": permissions, "evidence": t.Evidence, "expires": c.ExpiresAt.UTC().Format(time.RFC3339),
		}))
		return err
	})
	if err != nil {
		return "", hub.Token{}, fmt.Errorf("callers: token for %s: %w", t.Agent, err)
	}
	return text, made, nil
}

// checkEvidence refuses a token that sends results of tests and is not bound to a repository and to
// checks of it, and bounds of a token that sends none.
func (t NewToken) checkEvidence(op string, permissions []coord.Permission) error {
	sends := slices.Contains(permissions, coord.PermitEvidence)
	isBound := t.Evidence != nil && t.Evidence.Repo != "" && len(t.Evidence.Checks) > 0 && !slices.Contains(t.Evidence.Checks, "")
	switch {
	case sends && !isBound:
		return hub.Errorf(hub.CodeInvalid, op, "a token with the permission evidence must be bound to a repository and to its checks").
			WithHint("parley project token --agent NAME --permissions project:read,evidence --repo REPO --check NAME [--branch BRANCH]")
	case !sends && t.Evidence != nil:
		return hub.Errorf(hub.CodeInvalid, op, "repo, check and branch bound a token with the permission evidence alone")
	}
	return nil
}

// maxTokens is how many tokens a list has at most.
const maxTokens = 1000

// Tokens returns the tokens of a project, or all if it is "", that have not expired,
// newest first. Only the operator may.
func (s *Service) Tokens(ctx context.Context, actor hub.Caller, project coord.ProjectID) ([]hub.Token, error) {
	if err := actor.OperatorOnly("callers.Tokens"); err != nil {
		return nil, err
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Token, error) { return r.Tokens(project, maxTokens) })
	if err != nil {
		return nil, fmt.Errorf("callers: list tokens: %w", err)
	}
	now := hub.At(s.opts.Clock())
	return slices.DeleteFunc(append([]hub.Token{}, all...), func(t hub.Token) bool { return !now.Before(t.ExpiresAt.Time) }), nil // never null on the wire
}

// RevokeToken makes a token useless. Only the operator may.
func (s *Service) RevokeToken(ctx context.Context, actor hub.Caller, id string) (hub.Token, error) {
	const op = "callers.RevokeToken"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Token{}, err
	}
	var t hub.Token
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if t, err = tx.Token(id); err != nil || !t.RevokedAt.IsZero() {
			return err
		}
		t.RevokedAt = hub.At(s.opts.Clock())
		if _, err := tx.RevokeTokens("", id, t.RevokedAt); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(t.RevokedAt, actions.TokenRevoked, id, map[string]any{"agent": t.Agent, "project": t.Project}))
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Token{}, hub.Errorf(hub.CodeNotFound, op, "no token with id %.100q on this hub, or it has expired", id).WithHint("parley project token --list shows the tokens")
	}
	if err != nil {
		return hub.Token{}, fmt.Errorf("callers: revoke token %s: %w", id, err)
	}
	return t, nil
}

func (s *Service) tokenSecret(op string) ([]byte, error) {
	if s.opts.Vault == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file to sign tokens with")
	}
	return s.opts.Vault.TokenKey(), nil
}

// readToken returns the claims of a project token. It accepts one algorithm, this
// hub's key, and a time between issue and expiry, and refuses a token that was
// revoked.
func (s *Service) readToken(ctx context.Context, op, token string) (c claims, bounds *coord.EvidenceBounds, err error) {
	secret, err := s.tokenSecret(op)
	if err != nil {
		return claims{}, nil, err
	}
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(s.opts.Clock))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return claims{}, nil, hub.Errorf(hub.CodeUnauthenticated, op, "the project token has expired").
			WithHint("ask the operator for a new one: parley project token --project ID --agent NAME")
	case err != nil || c.Subject == "" || !c.Project.Valid():
		return claims{}, nil, hub.Errorf(hub.CodeUnauthenticated, op, "the project token was not issued by this hub")
	}
	known, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Token, error) { return r.Token(c.ID) })
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound || (err == nil && !known.RevokedAt.IsZero()):
		return claims{}, nil, hub.Errorf(hub.CodeUnauthenticated, op, "the project token was revoked").WithHint("ask the operator for a new one: parley project token --project ID --agent NAME")
	case err != nil:
		return claims{}, nil, fmt.Errorf("callers: read the token: %w", err)
	}
	return c, known.Evidence, nil
}
