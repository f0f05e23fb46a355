package reftest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A moment is a point in time that may or may not know its zone. Two of
// different kinds cannot be compared.
type moment struct {
	t     time.Time
	aware bool
}

// MarshalJSON writes the zone only if there is one, and a fraction only if it
// is not zero.
func (m moment) MarshalJSON() ([]byte, error) {
	layout := "2006-01-02T15:04:05"
	if m.t.Nanosecond() != 0 {
		layout += ".000000"
	}
	s := m.t.UTC().Format(layout)
	if m.aware {
		s += "Z"
	}
	return json.Marshal(s)
}

// after compares as the reference does.
func (m moment) after(o moment) (bool, *rpcError) {
	if m.aware != o.aware {
		return false, failed("can't compare offset-naive and offset-aware datetimes")
	}
	return m.t.After(o.t), nil
}

func invalid(format string, args ...any) *rpcError {
	return &rpcError{-32602, "Invalid params: " + fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) *rpcError {
	return &rpcError{-32000, "Server error: " + fmt.Sprintf(format, args...)}
}

// A dict reads members. The method decides how a missing member fails: as a server
// error where the reference code reads it unchecked, as a validation error where a
// model requires it.
type dict map[string]any

// take returns a member that the reference reads unchecked.
func (d dict) take(key string) (any, *rpcError) {
	v, ok := d[key]
	if !ok {
		return nil, failed("'%s'", key)
	}
	return v, nil
}

func (d dict) text(key string) (string, *rpcError) {
	v, err := d.take(key)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", invalid("%s: Input should be a valid string", key)
	}
	return s, nil
}

// A model checks members as the reference's models do and keeps the first
// error.
type model struct {
	d    dict
	name string
	err  *rpcError
}

func (m *model) fail(key, what string) {
	if m.err == nil {
		m.err = invalid("1 validation error for %s %s %s", m.name, key, what)
	}
}

func (m *model) str(key string) string {
	v, ok := m.d[key]
	if !ok {
		m.fail(key, "Field required")
		return ""
	}
	s, ok := v.(string)
	if !ok {
		m.fail(key, "Input should be a valid string")
	}
	return s
}

func (m *model) strOr(key, or string) string {
	if _, ok := m.d[key]; !ok {
		return or
	}
	return m.str(key)
}

func (m *model) strOrNull(key string) *string {
	if m.d[key] == nil {
		return nil
	}
	s := m.str(key)
	return &s
}

func (m *model) enum(key string, values []string, or string) string {
	s := m.strOr(key, or)
	if _, ok := m.d[key]; !ok && or == "" {
		m.fail(key, "Field required")
	} else if !slices.Contains(values, s) {
		m.fail(key, "Input should be one of the values")
	}
	return s
}

func (m *model) object(key string) map[string]any {
	v, ok := m.d[key].(map[string]any)
	if !ok {
		m.fail(key, "Input should be a valid dictionary")
	}
	return v
}

func (m *model) integer(key string, or int) int {
	v, ok := m.d[key]
	if !ok {
		if or < 0 {
			m.fail(key, "Field required")
		}
		return or
	}
	f, ok := v.(float64)
	if !ok || f != float64(int(f)) {
		m.fail(key, "Input should be a valid integer")
	}
	return int(f)
}

func (m *model) strings(key string) []string {
	out := []string{}
	v, ok := m.d[key]
	if !ok {
		return out
	}
	list, ok := v.([]any)
	if !ok {
		m.fail(key, "Input should be a valid list")
	}
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			m.fail(key, "Input should be a valid string")
		}
		out = append(out, s)
	}
	return out
}

func (m *model) moment(key string, or *moment) *moment {
	v, ok := m.d[key]
	if !ok || (v == nil && or == nil) {
		return or
	}
	switch v := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return &moment{t.UTC().Truncate(time.Microsecond), true}
		}
		if t, err := time.Parse("2006-01-02T15:04:05.999999999", v); err == nil {
			return &moment{t.Truncate(time.Microsecond), false}
		}
	case float64:
		return &moment{time.UnixMicro(int64(v * 1e6)).UTC(), true}
	}
	m.fail(key, "Input should be a valid datetime")
	return &moment{}
}

// each builds a list of models before the object that holds it, as the
// reference does: null is a server error there.
func each[T any](d dict, key string, build func(dict) (*T, *rpcError)) ([]*T, *rpcError) {
	out := []*T{}
	v, ok := d[key]
	if !ok {
		return out, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, failed("'NoneType' object is not iterable")
	}
	for _, e := range list {
		o, ok := e.(map[string]any)
		if !ok {
			return nil, failed("argument after ** must be a mapping")
		}
		v, err := build(o)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

var (
	contractTypes    = []string{"api_endpoint", "event_schema", "data_model", "config_spec", "rpc_interface", "custom"}
	contractStatuses = []string{"proposed", "negotiating", "agreed", "implemented", "verified"}
	workStatuses     = []string{"pending", "in_progress", "complete", "needs_revision"}
	projectStatuses  = []string{"planning", "implementing", "integrating", "complete"}
	contextTypes     = []string{
		"code_snippet", "type_definition", "api_spec", "error_catalog", "env_config",
		"test_case", "dependency_info", "implementation_status", "question", "decision",
	}
)

// next is which status may follow which, where the reference asks at all.
var next = map[string][]string{
	"proposed": {"negotiating", "agreed"}, "negotiating": {"proposed", "agreed"}, "agreed": {"implemented", "proposed"},
	"implemented": {"verified", "agreed"}, "verified": {"implemented"},
}

type project struct {
	ID        string      `json:"project_id"`
	Name      string      `json:"name"`
	Objective string      `json:"objective"`
	Status    string      `json:"status"`
	Repos     []*repo     `json:"repos"`
	Contracts []*contract `json:"contracts"`
	Context   []*packet   `json:"context_history"`
	CreatedAt moment      `json:"created_at"`
	UpdatedAt moment      `json:"updated_at"`
}

type repo struct {
	ID       string   `json:"repo_id"`
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Language string   `json:"language"`
	Paths    []string `json:"relevant_paths"`
	URL      *string  `json:"url"`
	Agent    *string  `json:"assigned_agent"`
	Endpoint *string  `json:"agent_endpoint"`
}

type contract struct {
	ID         string         `json:"contract_id"`
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	Version    int            `json:"version"`
	Status     string         `json:"status"`
	Content    map[string]any `json:"content"`
	ProposedBy string         `json:"proposed_by"`
	Work       []*work        `json:"implementations"`
	History    []*version     `json:"history"`
	CreatedAt  moment         `json:"created_at"`
	UpdatedAt  moment         `json:"updated_at"`
}

type work struct {
	Repo        string   `json:"repo_id"`
	Agent       string   `json:"agent_id"`
	Status      string   `json:"status"`
	Files       []string `json:"files"`
	Notes       string   `json:"notes"`
	Plan        *string  `json:"plan"`
	Endpoint    *string  `json:"test_endpoint"`
	StartedAt   *moment  `json:"started_at"`
	CompletedAt *moment  `json:"completed_at"`
}

type version struct {
	Version    int            `json:"version"`
	Content    map[string]any `json:"content"`
	ProposedBy string         `json:"proposed_by"`
	At         moment         `json:"timestamp"`
	Notes      *string        `json:"change_notes"`
}

type packet struct {
	ID      string         `json:"packet_id"`
	Repo    string         `json:"from_repo"`
	Agent   string         `json:"from_agent"`
	At      moment         `json:"timestamp"`
	Type    string         `json:"type"`
	Content map[string]any `json:"content"`
	Related []string       `json:"related_contracts"`
	ReplyTo *string        `json:"reply_to"`
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the runtime ends the program instead
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (a *Agent) project(d dict) (*project, *rpcError) {
	repos, err := each(d, "repos", newRepo)
	if err != nil {
		return nil, err
	}
	contracts, err := each(d, "contracts", a.contract)
	if err != nil {
		return nil, err
	}
	packets, err := each(d, "context_history", a.packet)
	if err != nil {
		return nil, err
	}
	now := a.now()
	m := &model{d: d, name: "Project"}
	p := &project{
		ID: m.strOr("project_id", newID()), Name: m.str("name"), Objective: m.str("objective"), Status: m.enum("status", projectStatuses, "planning"),
		Repos: repos, Contracts: contracts, Context: packets, CreatedAt: *m.moment("created_at", &now), UpdatedAt: *m.moment("updated_at", &now),
	}
	return p, m.err
}

func newRepo(d dict) (*repo, *rpcError) {
	m := &model{d: d, name: "RepoContext"}
	r := &repo{
		ID: m.strOr("repo_id", newID()), Name: m.str("name"), Role: m.str("role"), Language: m.str("language"), Paths: m.strings("relevant_paths"),
		URL: m.strOrNull("url"), Agent: m.strOrNull("assigned_agent"), Endpoint: m.strOrNull("agent_endpoint"),
	}
	return r, m.err
}

func (a *Agent) contract(d dict) (*contract, *rpcError) {
	done, err := each(d, "implementations", newWork)
	if err != nil {
		return nil, err
	}
	history, err := each(d, "history", a.version)
	if err != nil {
		return nil, err
	}
	now := a.now()
	m := &model{d: d, name: "Contract"}
	c := &contract{
		ID: m.strOr("contract_id", newID()), Type: m.enum("type", contractTypes, ""), Name: m.str("name"), Version: m.integer("version", 1),
		Status: m.enum("status", contractStatuses, "proposed"), Content: m.object("content"), ProposedBy: m.str("proposed_by"),
		Work: done, History: history, CreatedAt: *m.moment("created_at", &now), UpdatedAt: *m.moment("updated_at", &now),
	}
	return c, m.err
}

func newWork(d dict) (*work, *rpcError) {
	m := &model{d: d, name: "Implementation"}
	w := &work{
		Repo: m.str("repo_id"), Agent: m.str("agent_id"), Status: m.enum("status", workStatuses, "pending"), Files: m.strings("files"),
		Notes: m.strOr("notes", ""), Plan: m.strOrNull("plan"), Endpoint: m.strOrNull("test_endpoint"),
		StartedAt: m.moment("started_at", nil), CompletedAt: m.moment("completed_at", nil),
	}
	return w, m.err
}

func (a *Agent) version(d dict) (*version, *rpcError) {
	now := a.now()
	m := &model{d: d, name: "ContractVersion"}
	v := &version{
		Version: m.integer("version", -1), Content: m.object("content"), ProposedBy: m.str("proposed_by"), At: *m.moment("timestamp", &now), Notes: m.strOrNull("change_notes"),
	}
	return v, m.err
}

func (a *Agent) packet(d dict) (*packet, *rpcError) {
	now := a.now()
	m := &model{d: d, name: "ContextPacket"}
	p := &packet{
		ID: m.strOr("packet_id", newID()), Repo: m.str("from_repo"), Agent: m.str("from_agent"), At: *m.moment("timestamp", &now),
		Type: m.enum("type", contextTypes, ""), Content: m.object("content"), Related: m.strings("related_contracts"), ReplyTo: m.strOrNull("reply_to"),
	}
	return p, m.err
}

// clone returns v as it would be sent now: what is answered must not change
// while it is written.
func clone(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}
