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

// Bounds of a server.
const (
	maxBody   = 32 << 20 // bytes of a request
	maxSeen   = 10_000   // requests of which equal ones are counted
	maxHeader = 10 * time.Second
	maxGrace  = 5 * time.Second
)

// A Server is a scripted model as an HTTP handler. It is safe for concurrent use.
type Server struct {
	script *Script
	log    exchanges

	// mu guards seen and keys.
	mu   sync.Mutex
	seen map[string]int // how many equal requests came, by key
	keys []string       // of seen, the oldest first
}

// New returns a model that follows a script; nil is for [Default].
func New(script *Script) *Server {
	if script == nil {
		script = Default()
	}
	return &Server{script: script, seen: map[string]int{}}
}

// Log returns the latest requests, the newest last.
func (s *Server) Log() []Exchange { return s.log.all() }

// Serve answers requests until ctx ends, and then ends the requests that still run. It
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

// Listen opens a port on a loopback address. It refuses any other address, because the
// model asks for no key.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("model: listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("model: listen on %s: use a loopback address such as 127.0.0.1:0, because the model requires no key", addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return l, nil
}

// ServeHTTP answers one request.
// Every request is logged, also one that is refused, before its answer is sent: a
// test that has seen the answer finds the request in the log.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/_log" {
		s.serveLog(w, req)
		return
	}

	x := Exchange{Method: req.Method, Path: req.URL.Path, Status: http.StatusOK}
	refuse := func(status int, failure func(int, string) any, text string) {
		x.Status = status
		s.log.add(x)
		reply(w, status, failure(status, text))
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		refuse(http.StatusRequestEntityTooLarge, openAIFailure, err.Error())
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
		refuse(http.StatusNotFound, openAIFailure, "the scripted model has no "+req.URL.Path)
		return
	}
	x.API = way.name
	r, err := readRequest(req.URL.Path, body)
	if err != nil || req.Method != http.MethodPost {
		refuse(http.StatusBadRequest, way.failure, fmt.Sprintf("cannot read the request: %v", cmp.Or(err, errors.New("it must be a POST"))))
		return
	}

	s.count(r, req.URL.Path, body)
	// A request that the agent makes for itself never moves the script on.
	a, side := r.side()
	p := r.prompt(!s.script.PlainPrompts)
	if !side {
		a = s.script.position(r).answer(r)
	}

	x.Model = r.model
	x.Stream = r.stream
	x.Side = side
	x.Prompt = p.text
	x.Results = len(p.results)
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

// count sets the key of a request and its number among equal ones.
// Equal requests are retries. A step that fails a number of times counts them, and
// their answers have different ids.
func (s *Server) count(r *request, path string, body []byte) {
	// Six bytes are enough to tell apart the requests of one test.
	sum := sha256.Sum256(append([]byte(path+"\n"), body...))
	key := hex.EncodeToString(sum[:6])
	s.mu.Lock()
	defer s.mu.Unlock()
	// The oldest key goes first. Its count starts again, which only a test of more than
	// maxSeen requests could notice.
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

// fixed answers requests that no script is about: models, token counts, health.
func (s *Server) fixed(req *http.Request, body []byte) (any, bool) {
	path := req.URL.Path
	switch {
	// Agents ask whether the service lives before they use it.
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

// models returns the list of models, in a form for OpenAI and Anthropic at once, or in the
// form of Gemini.
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

// modelObject describes a model with the members that OpenAI and Anthropic have.
func modelObject(name string) obj {
	return obj{"id": name, "object": "model", "type": "model", "display_name": name, "created": epoch, "created_at": time.Unix(epoch, 0).UTC().Format(time.RFC3339), "owned_by": "parley"}
}

// serveLog lets a test in another process read the log and empty it.
func (s *Server) serveLog(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet:
		reply(w, http.StatusOK, obj{"requests": s.Log()})
	case http.MethodDelete:
		s.log.clear()
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, DELETE")
		reply(w, http.StatusMethodNotAllowed, openAIFailure(http.StatusMethodNotAllowed, "use GET to read the log and DELETE to empty it"))
	}
}

// reply sends JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(encoded(v), '\n')) // a failed write means that the agent has gone
}
