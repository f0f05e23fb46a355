package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what a server takes.
const (
	maxBody   = 32 << 20 // bytes of a request
	maxSeen   = 10_000   // requests that are remembered to count equal ones
	maxHeader = 10 * time.Second
	maxGrace  = 5 * time.Second
)

// A Server is a scripted model as an HTTP handler.
type Server struct {
	script *Script
	log    exchanges

	mu   sync.Mutex
	seen map[string]int // how often each request came
	keys []string       // of seen, the oldest first
}

// New returns a model that follows a script; nil is for [Default].
func New(script *Script) *Server {
	if script == nil {
		script = Default()
	}
	return &Server{script: script, seen: map[string]int{}}
}

// Log returns the requests that came, the newest last, as far as they are kept.
func (s *Server) Log() []Exchange { return s.log.all() }

// Serve answers requests until ctx ends, and then ends those that still wait. It
// closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("model: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxGrace)
	defer cancel()
	err := srv.Shutdown(grace) // requests end with ctx
	<-ended
	return errors.Join(err, srv.Close())
}

// Listen opens a port on an address of this machine that nobody else can reach.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("model: listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("model: listen on %s: it must be a loopback address, such as 127.0.0.1:0, because anybody may ask the model", addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return l, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/_log" {
		s.serveLog(w, req)
		return
	}
	x := Exchange{Method: req.Method, Path: req.URL.Path, Status: http.StatusOK}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		x.Status = http.StatusRequestEntityTooLarge
		s.log.add(x)
		reply(w, x.Status, openAIFailure(x.Status, err.Error()))
		return
	}
	x.Body = body
	if answer, ok := s.fixed(req, body); ok {
		s.log.add(x)
		reply(w, x.Status, answer)
		return
	}
	way := apiFor(req.URL.Path)
	if way == nil {
		x.Status = http.StatusNotFound
		s.log.add(x)
		reply(w, x.Status, openAIFailure(x.Status, "the scripted model has no "+req.URL.Path))
		return
	}
	x.API = way.name
	r, err := way.read(req.URL.Path, body)
	if err != nil || req.Method != http.MethodPost {
		x.Status = http.StatusBadRequest
		s.log.add(x)
		reply(w, x.Status, way.failure(x.Status, fmt.Sprintf("the request cannot be read: %v", cmp.Or(err, errors.New("it must be a POST")))))
		return
	}
	s.count(r, req.URL.Path, body)
	a, side := r.side()
	p := r.prompt(!s.script.Deaf)
	if !side {
		a = s.script.scene(r).answer(r)
	}
	x.Model, x.Stream, x.Side, x.Prompt, x.Results = r.model, r.stream, side, p.text, len(p.results)
	for _, t := range r.tools {
		x.Tools = append(x.Tools, t.name)
	}
	x.Answer = a.summary()
	if a.fault != nil && a.fault.Do == Error && len(a.parts) == 0 {
		x.Status = cmp.Or(a.fault.Status, http.StatusInternalServerError)
	}
	s.log.add(x)
	s.send(req.Context(), w, way, r, &a)
}

// count gives a request its key, and its number among those that are equal.
func (s *Server) count(r *request, path string, body []byte) {
	sum := sha256.Sum256(append([]byte(path+"\n"), body...))
	key := hex.EncodeToString(sum[:6])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[key] == 0 {
		if s.keys = append(s.keys, key); len(s.keys) > maxSeen {
			delete(s.seen, s.keys[0])
			s.keys = s.keys[1:]
		}
	}
	s.seen[key]++
	if r.key, r.nth = key, s.seen[key]; r.nth > 1 {
		r.key += "_" + strconv.Itoa(r.nth)
	}
}

// fixed answers what has nothing to do with a script.
func (s *Server) fixed(req *http.Request, body []byte) (any, bool) {
	path := req.URL.Path
	switch {
	case req.Method == http.MethodHead || path == "/":
		return obj{"status": "ok"}, true
	case strings.HasSuffix(path, "/messages/count_tokens"):
		return obj{"input_tokens": tokens(string(body))}, true
	case strings.HasSuffix(path, geminiCount):
		return obj{"totalTokens": tokens(string(body))}, true
	case req.Method != http.MethodGet:
	case strings.HasSuffix(path, "/models"):
		return s.models(strings.Contains(path, "/v1beta")), true
	default:
		if at := strings.LastIndex(path, "/models/"); at >= 0 {
			return modelObject(path[at+len("/models/"):]), true
		}
	}
	return nil, false
}

// models lists the models, for OpenAI and Anthropic at once, or as Gemini does.
func (s *Server) models(gemini bool) any {
	list := []any{}
	for _, name := range s.script.Models {
		m := modelObject(name)
		if gemini {
			m = obj{"name": "models/" + name, "displayName": name, "inputTokenLimit": 1 << 20, "outputTokenLimit": 1 << 16, "supportedGenerationMethods": []any{"generateContent", "countTokens"}}
		}
		list = append(list, m)
	}
	if gemini {
		return obj{"models": list}
	}
	return obj{"object": "list", "data": list, "has_more": false}
}

func modelObject(name string) obj {
	return obj{"id": name, "object": "model", "type": "model", "display_name": name, "created": epoch, "created_at": time.Unix(epoch, 0).UTC().Format(time.RFC3339), "owned_by": "parley"}
}

func (s *Server) serveLog(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet:
		reply(w, http.StatusOK, obj{"requests": s.Log()})
	case http.MethodDelete:
		s.log.clear()
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, DELETE")
		reply(w, http.StatusMethodNotAllowed, openAIFailure(http.StatusMethodNotAllowed, "the log can be read with GET and emptied with DELETE"))
	}
}

// reply sends JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(encoded(v), '\n')) // whoever asked is gone if it fails
}
