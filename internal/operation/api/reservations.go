package api

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/reservation"
)

func filesAsk(ctx context.Context, s *Services, a hub.Caller, q reservation.Question) (reservation.Answer, error) {
	const op = "parley/reservations/ask"
	out, err := s.Files.Guard(ctx, a, q)
	if err == nil && out.Decision == reservation.Deny {
		s.Journal.Refused(ctx, a.ID, op, deniedBecause(out.Reason))
	}
	return out, err
}

// deniedBecause returns the code with which a denial is counted among the refusals.
func deniedBecause(reason string) hub.Code {
	switch reason {
	case reservation.ReasonStale:
		return hub.CodeConflict
	case reservation.ReasonStopped:
		return hub.CodeDenied
	}
	return hub.CodeOwnership
}

// ReserveParams are the parameters of parley/reservations/reserve.
type ReserveParams struct {
	reservation.Request
	For string `json:"for,omitempty"` // a duration such as 2h; default and most 24h
}

func filesReserve(ctx context.Context, s *Services, a hub.Caller, p ReserveParams) (reservation.Grant, error) {
	const op = "parley/reservations/reserve"
	r := p.Request
	if p.For != "" {
		var err error
		if r.For, err = time.ParseDuration(p.For); err != nil || r.For <= 0 {
			return reservation.Grant{}, hub.Errorf(hub.CodeInvalid, op, "for must be a duration such as 2h or 90m, got %.50q", p.For)
		}
	}
	return s.Files.Reserve(ctx, a, r)
}

func filesRelease(ctx context.Context, s *Services, a hub.Caller, p reservation.Release) (reservation.Released, error) {
	return s.Files.Release(ctx, a, p)
}

func filesList(ctx context.Context, s *Services, _ hub.Caller, f reservation.Filter) (reservation.Listing, error) {
	return s.Files.List(ctx, f)
}

// FilesParams are the parameters of parley/files.
type FilesParams struct {
	Action string   `json:"action"`          // who, reserve, release, list or back
	Paths  []string `json:"paths,omitempty"` // reserve: patterns
	For    string   `json:"for,omitempty"`
	Why    string   `json:"why,omitempty"`
	Shared bool     `json:"shared,omitempty"`
	Tree   string   `json:"tree,omitempty"` // default the folder of the caller's session

	ID hub.KeptID `json:"id,omitempty"` // back: the kept work; default the last destruction in the tree
}

// A FilesAnswer is the answer to an action. Only the fields that the action produces are set.
type FilesAnswer struct {
	Listing  *reservation.Listing  `json:"listing,omitempty"`  // who and list
	Grant    *reservation.Grant    `json:"grant,omitempty"`    // reserve
	Released *reservation.Released `json:"released,omitempty"` // release
	Back     *keptwork.Back        `json:"back,omitempty"`     // back
}

func files(ctx context.Context, s *Services, a hub.Caller, p FilesParams) (out FilesAnswer, err error) {
	const op = "parley/files"
	if p.Tree == "" {
		if p.Tree, err = s.folderOf(ctx, op, a.ID); err != nil {
			return out, err
		}
	}
	switch p.Action {
	case "who":
		if len(p.Paths) == 0 {
			return out, hub.Errorf(hub.CodeInvalid, op, "paths are required").WithHint("name the files, or use action list")
		}
		var rows reservation.Listing
		rows, err = s.Files.Who(ctx, p.Tree, p.Paths)
		out.Listing = &rows
	case "list":
		var rows reservation.Listing
		rows, err = s.Files.List(ctx, reservation.Filter{Tree: p.Tree})
		out.Listing = &rows
	case "reserve":
		var grant reservation.Grant
		grant, err = filesReserve(ctx, s, a, ReserveParams{reservation.Request{Tree: p.Tree, Patterns: p.Paths, Why: p.Why, Shared: p.Shared}, p.For})
		out.Grant = &grant
	case "release":
		var released reservation.Released
		released, err = s.Files.Release(ctx, a, reservation.Release{Tree: p.Tree, Paths: p.Paths})
		out.Released = &released
	case "back":
		var back keptwork.Back
		back, err = keptWorkBack(ctx, s, a, keptwork.Request{ID: p.ID, Tree: p.Tree, Paths: p.Paths})
		out.Back = &back
	default:
		return out, hub.Errorf(hub.CodeInvalid, op, "unknown action %.50q: use who, reserve, release, list or back", p.Action)
	}
	return out, err
}

// folderOf returns the folder of the live session of an agent that was used last.
func (s *Services) folderOf(ctx context.Context, op string, agent hub.AgentID) (string, error) {
	live, err := s.liveSessions(ctx, []hub.AgentID{agent})
	if err != nil {
		return "", err
	}
	if session := live[agent]; session != nil && filepath.IsAbs(session.Cwd) {
		return session.Cwd, nil
	}
	return "", hub.Errorf(hub.CodeInvalid, op, "tree is required: the hub does not know the folder of your session").
		WithHint("give the absolute path of your working tree")
}

// maxNeighbours bounds the agents that are considered as neighbours in a working tree.
const maxNeighbours = 500

// sharesTree reports whether another agent has a live session in the working tree of a session
// of the caller.
func (s *Services) sharesTree(ctx context.Context, a hub.Caller) (bool, error) {
	var own, others []string
	err := s.Store.View(ctx, func(r hub.Reader) (err error) {
		if own, err = s.Wakes.Folders(r, a.ID); err != nil || len(own) == 0 {
			return err
		}
		agents, err := r.Agents()
		for _, agent := range agents[:min(len(agents), maxNeighbours)] {
			if agent.ID == a.ID {
				continue
			}
			folders, err := s.Wakes.Folders(r, agent.ID)
			if err != nil {
				return err
			}
			others = append(others, folders...)
		}
		return err
	})
	if err != nil || len(own) == 0 || len(others) == 0 {
		return false, err
	}

	// A folder that is no working tree of this hub is shared with nobody.
	for _, folder := range own {
		top, err := s.Files.Top(ctx, folder)
		if err != nil {
			continue
		}
		for _, other := range others {
			if other == top || strings.HasPrefix(other, top+string(filepath.Separator)) {
				return true, nil
			}
		}
	}
	return false, nil
}
