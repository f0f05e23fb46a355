package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/signin"
)

// WebLink is a link with which one browser is signed in. The code is in it this once.
type WebLink = signin.Link

func webOpen(ctx context.Context, s *Services, a hub.Caller, _ None) (WebLink, error) {
	return s.SignIn.Open(ctx, a)
}

// WebInviteParams name a viewer.
type WebInviteParams struct {
	Name string `json:"name"`
	ForS int64  `json:"for_s,omitempty"` // seconds that the session lives; default 12 hours
}

func webInvite(ctx context.Context, s *Services, a hub.Caller, p WebInviteParams) (WebLink, error) {
	return s.SignIn.Invite(ctx, a, p.Name, time.Duration(min(p.ForS, 1<<32))*time.Second)
}

// WebSessionList lists the sessions of browsers, the oldest first.
type WebSessionList struct {
	Sessions []signin.Session `json:"sessions"`
}

func webSessions(ctx context.Context, s *Services, a hub.Caller, _ None) (WebSessionList, error) {
	list, err := s.SignIn.Sessions(ctx, a)
	return WebSessionList{append([]signin.Session{}, list...)}, err
}

// WebRevokeParams name a session, or all.
type WebRevokeParams struct {
	ID  string `json:"id,omitempty"`
	All bool   `json:"all,omitempty"`
}

// WebRevoked says how many sessions were ended.
type WebRevoked struct {
	Ended int `json:"ended"`
}

func webRevoke(ctx context.Context, s *Services, a hub.Caller, p WebRevokeParams) (WebRevoked, error) {
	if (p.ID == "") != p.All {
		return WebRevoked{}, hub.Errorf(hub.CodeInvalid, "parley/web/revoke", "name one session, or give all")
	}
	n, err := s.SignIn.Revoke(ctx, a, p.ID)
	return WebRevoked{n}, err
}
