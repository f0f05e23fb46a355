package web

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/landing"
)

const (
	entryPage  = 100 // entries on the page
	reviewPage = 50  // reviews that wait, on the page
)

// landingData is the page of the landing queues.
type landingData struct {
	Here    string
	Open    []hub.LandingEntry
	Closed  []hub.LandingEntry
	Older   string // the address of the next page; "" on the last one
	Reviews []hub.Review
}

func landings(ctx context.Context, v *visit) (string, any, error) {
	d := landingData{Here: v.r.URL.RequestURI()}
	p := api.LandingsParams{Cursor: hub.LandingID(v.r.URL.Query().Get("cursor"))}
	p.Limit = entryPage
	got, err := perform(ctx, v, api.ListLandings, p)
	if err != nil {
		return "", nil, err
	}
	for _, e := range got.Entries {
		if e.State.Open() {
			d.Open = append(d.Open, e)
		} else {
			d.Closed = append(d.Closed, e)
		}
	}
	if got.Next != "" {
		d.Older = "/landing?cursor=" + string(got.Next)
	}
	reviews, err := perform(ctx, v, api.ListReviews, api.ReviewsParams{Limit: reviewPage})
	d.Reviews = reviews.Reviews
	return "Landing", d, err
}

// entryData is the page of one entry.
type entryData struct {
	hub.LandingEntry
	Here    string
	Head    string
	Live    *landing.Live
	Reviews []hub.Review
	History []hub.Entry
	Files   []reviewFile
	More    int         // files that are not shown
	Waiting *hub.Review // the review that waits; nil if none does
	Finding string      // the beginning of a finding about the line that was chosen
}

func oneLanding(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.ShowEntry, api.EntryParams{ID: hub.LandingID(v.r.PathValue("id"))})
	if err != nil {
		return "", nil, err
	}
	d := entryData{LandingEntry: got.Entries[0], Here: v.r.URL.Path, Head: got.Head, Live: got.Live, Reviews: got.Reviews, History: got.History}
	var findings []hub.ReviewFinding
	for i, r := range got.Reviews {
		if r.State == hub.ReviewStateWaiting {
			d.Waiting = &got.Reviews[i]
		}
		if r.Commit == d.Commit {
			findings = append(findings, r.Findings...)
		}
	}
	files, more := parsePatch(got.Difference)
	d.Files = reviewFiles(files, findings)
	d.More = more
	if q := v.r.URL.Query(); q.Get("path") != "" {
		d.Finding = q.Get("path") + ":" + q.Get("line") + ": "
	}
	return string(d.ID), d, nil
}

// A reviewFile is a file of a difference with the findings of reviewers beside its lines.
type reviewFile struct {
	filePatch
	Lines  []reviewLine
	Others []hub.ReviewFinding // about lines that the difference does not show
}

// A reviewLine is a line of a difference.
type reviewLine struct {
	diffLine
	N        int // in the new text; 0 for a line that is not in it
	Findings []hub.ReviewFinding
}

// reviewFiles puts findings beside the lines of a difference.
func reviewFiles(files []filePatch, findings []hub.ReviewFinding) (out []reviewFile) {
	for _, f := range files {
		r := reviewFile{filePatch: f}
		n := 0
		shown := map[int]bool{}
		for _, line := range f.Lines {
			l := reviewLine{diffLine: line}
			switch line.Kind {
			case "hunk":
				n = newStart(line.Text) - 1
			case "add", "same":
				n++
				l.N = n
			}
			for _, finding := range findings {
				if l.N > 0 && finding.Path == f.Name && finding.Line == l.N {
					l.Findings = append(l.Findings, finding)
					shown[l.N] = true
				}
			}
			r.Lines = append(r.Lines, l)
		}
		for _, finding := range findings {
			if finding.Path == f.Name && !shown[finding.Line] {
				r.Others = append(r.Others, finding)
			}
		}
		out = append(out, r)
	}
	return out
}

// newStart returns the first line of the new text in the head of a hunk: @@ -1,2 +3,4 @@.
func newStart(head string) int {
	_, after, ok := strings.Cut(head, " +")
	if !ok {
		return 1
	}
	digits, _, _ := strings.Cut(after, " ")
	digits, _, _ = strings.Cut(digits, ",")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1
	}
	return n
}

// retryLanding says yes to an entry that waits for the operator, or queues one again.
func retryLanding(ctx context.Context, f form) (string, error) {
	_, err := perform(ctx, f.visit, api.RetryLanding, api.EntryParams{ID: hub.LandingID(f.Get("id"))})
	return fmt.Sprintf("%s is queued.", f.Get("id")), err
}

// cancelLanding takes an entry out of its queue.
func cancelLanding(ctx context.Context, f form) (string, error) {
	_, err := perform(ctx, f.visit, api.CancelLanding, api.EntryParams{ID: hub.LandingID(f.Get("id")), Reason: f.Get("reason")})
	return fmt.Sprintf("%s is cancelled; its owner is notified.", f.Get("id")), err
}

// undoLanding queues a commit that takes back a landing.
func undoLanding(ctx context.Context, f form) (string, error) {
	got, err := perform(ctx, f.visit, api.UndoLanding, api.EntryParams{ID: hub.LandingID(f.Get("id"))})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s takes back %s.", got.Entries[0].ID, f.Get("id")), nil
}

// giveReview answers a review. Findings are lines of the form PATH:LINE:TEXT.
func giveReview(ctx context.Context, f form) (string, error) {
	p := api.ReviewParams{ID: f.Get("id"), Verdict: f.Get("verdict")}
	for line := range strings.Lines(f.Get("findings")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		finding, err := landing.ParseFinding(line)
		if err != nil {
			return "", err
		}
		p.Findings = append(p.Findings, finding)
	}
	got, err := perform(ctx, f.visit, api.GiveReview, p)
	return fmt.Sprintf("Review %s: %s. The owner is notified.", got.Review.ID, got.Review.Verdict), err
}
