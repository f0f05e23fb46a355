package coordination

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A File is a file as it comes in.
type File struct {
	Name        string  `json:"name"`
	Content     *string `json:"content"` // base64; must be given
	ContentType string  `json:"contentType,omitempty"`
}

// FileParams are the parameters of cacp/file/share and
// cacp/file/fulfillRequest.
type FileParams struct {
	InProject
	contract.As
	Request string `json:"requestId,omitempty"` // that the file is for
	File    File   `json:"file"`
	Purpose string `json:"purpose,omitempty"`
}

func (p FileParams) file(op string) (contract.NewFile, error) {
	if p.File.Content == nil {
		return contract.NewFile{}, hub.Errorf(hub.CodeInvalid, op, "file.content required: base64, empty for an empty file")
	}
	return contract.NewFile{Project: p.Project, As: p.As, Name: p.File.Name, ContentType: p.File.ContentType, Purpose: p.Purpose, Content: *p.File.Content}, nil
}

// Kept is the answer to a file that came in.
type Kept struct {
	Status  string `json:"status"`
	Request string `json:"requestId,omitempty"`
	contract.File
}

func shareFile(ctx context.Context, s *Services, c hub.Caller, p FileParams) (Kept, error) {
	file, err := p.file("cacp/file/share")
	if err != nil {
		return Kept{}, err
	}
	kept, err := s.Contracts.ShareFile(ctx, c, file)
	return Kept{Status: "received", File: kept}, err
}

func fulfilRequest(ctx context.Context, s *Services, c hub.Caller, p FileParams) (Kept, error) {
	if err := required("cacp/file/fulfillRequest", "requestId", p.Request); err != nil {
		return Kept{}, err
	}
	file, err := p.file("cacp/file/fulfillRequest")
	if err != nil {
		return Kept{}, err
	}
	kept, err := s.Contracts.FulfilRequest(ctx, c, p.Request, file)
	return Kept{Status: "fulfilled", Request: p.Request, File: kept}, err
}

// FileRequest are the parameters of cacp/file/request.
type FileRequest struct {
	InProject
	contract.As
	Description string `json:"description"`
	Format      string `json:"suggestedFormat,omitempty"`
}

// Requested is the answer to cacp/file/request.
type Requested struct {
	Status  string `json:"status"`
	Request string `json:"requestId"`
}

func requestFile(ctx context.Context, s *Services, c hub.Caller, p FileRequest) (Requested, error) {
	r, err := s.Contracts.RequestFile(ctx, c, p.As, coord.FileRequest{Project: p.Project, Description: p.Description, Format: p.Format})
	return Requested{"request_received", r.ID}, err
}

// Requests is the answer to cacp/file/listRequests.
type Requests struct {
	Requests []OpenRequest `json:"requests"` // newest first
}

// An OpenRequest is a request for a file as it is shown, with its members in
// both spellings.
type OpenRequest struct {
	coord.FileRequest
	RequestID string    `json:"requestId"`
	Agent     coord.AID `json:"fromAgent"`
	Status    string    `json:"status"` // pending or fulfilled
}

func listRequests(ctx context.Context, s *Services, c hub.Caller, p ProjectParams) (Requests, error) {
	found, err := s.Contracts.FileRequests(ctx, c, p.Project)
	out := Requests{make([]OpenRequest, len(found))}
	for i, r := range found {
		status := "pending"
		if !r.FulfilledAt.IsZero() {
			status = "fulfilled"
		}
		out.Requests[i] = OpenRequest{r, r.ID, r.FromAgent, status}
	}
	return out, err
}
