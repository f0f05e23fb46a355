package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
)

// A config holds the settings of a configuration file. The flags of serve have the
// same members.
type config struct {
	Addr              string   `yaml:"addr"`
	TLSCert           string   `yaml:"tls_cert"`
	TLSKey            string   `yaml:"tls_key"`
	NoTLSBecause      string   `yaml:"no_tls_because"`
	Hosts             []string `yaml:"hosts"`
	LogFormat         string   `yaml:"log_format"`
	LogLevel          string   `yaml:"log_level"`
	LogFile           string   `yaml:"log_file"`
	Durability        string   `yaml:"durability"`
	Store             string   `yaml:"store"`
	StorePasswordFile string   `yaml:"store_password_file"`
	StoreNoTLSBecause string   `yaml:"store_no_tls_because"`
	Machine           string   `yaml:"machine"`
	LenientFrom       *bool    `yaml:"lenient_from"` // nil if not said
	NoInboxFiles      *bool    `yaml:"no_inbox_files"`
	RequireProof      *bool    `yaml:"require_proof"`
	StrictUpdate      *bool    `yaml:"strict_update"`
	Roots             []string `yaml:"roots"`
	SLA               string   `yaml:"sla"`
	ResponseTime      string   `yaml:"response_time"`
	MergeSLA          string   `yaml:"merge_sla"`
	Teamspaces        string   `yaml:"teamspaces"`
	Without           []string `yaml:"without"`
	Runs              runs     `yaml:"runs"`
	Repo              string   `yaml:"repo"`
	Role              string   `yaml:"role"`
	Language          string   `yaml:"language"`
	AID               string   `yaml:"aid"`
	URL               string   `yaml:"url"`
	Auth              string   `yaml:"auth"`
	PeerAllow         []string `yaml:"peer_allow"`
	Exchange          string   `yaml:"exchange"`
	Limits            limits   `yaml:"limits"`
	Wakes             wakes    `yaml:"wakes"`
	Kept              count    `yaml:"kept"` // processes of kept agents at a time

	Notify  []notifyTarget `yaml:"notify"`  // ways to tell people
	Gateway *gatewayConfig `yaml:"gateway"` // nil if the hub uses none
}

// A count is a number in the configuration; the zero count was not given.
type count hub.Count

// UnmarshalYAML reads a positive integer.
func (c *count) UnmarshalYAML(n *yaml.Node) error { return scalar(n, (*hub.Count)(c)) }

// A period is a length of time in the configuration or of a flag; the zero period was not given.
type period time.Duration

// UnmarshalYAML reads a positive length of time.
func (s *period) UnmarshalYAML(n *yaml.Node) error { return scalar(n, s) }

// Set reads a positive length of time.
func (s *period) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a length of time such as 90s or 2h", text)
	case d <= 0:
		return fmt.Errorf("must be longer than 0, not %s; leave it out for the default", text)
	}
	*s = period(d)
	return nil
}

// String returns the length of time, "0" for a period that was not given.
func (s *period) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type returns the word for the value in the help text of a flag.
func (*period) Type() string { return "duration" }

// scalar reads the value of n as the value of a flag is read.
func scalar(n *yaml.Node, into interface{ Set(string) error }) error {
	err := fmt.Errorf("must be a single value")
	if n.Kind == yaml.ScalarNode {
		err = into.Set(n.Value)
	}
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

// wakes bounds the turns that mail may start of one agent.
type wakes struct {
	Gap         period `yaml:"gap"`
	PerHour     count  `yaml:"per_hour"`
	PairPerHour count  `yaml:"pair_per_hour"`
}

// runs says how long the files of runs are kept.
type runs struct {
	Keep   count  `yaml:"keep"`
	MaxAge period `yaml:"max_age"`
}

// limits may be tightened.
type limits struct {
	DirectPerMinute    count  `yaml:"direct_per_minute"`
	BroadcastPerHour   count  `yaml:"broadcast_per_hour"`
	Recipients         count  `yaml:"recipients"`
	ThreadHops         count  `yaml:"thread_hops"`
	NegotiationRounds  count  `yaml:"negotiation_rounds"`
	DisagreementRounds count  `yaml:"disagreement_rounds"`
	Repeats            count  `yaml:"repeats"`
	SameType           count  `yaml:"same_type"`
	TripsPerDay        count  `yaml:"trips_per_day"`
	RepeatWindow       period `yaml:"repeat_window"`
	SuspendFor         period `yaml:"suspend_for"`
	CauseWindow        period `yaml:"cause_window"`
}

// loadConfig reads the configuration file, if there is one, and puts the
// environment on top.
func (a *app) loadConfig(home string) (config, error) {
	path, asked := a.config, true
	if path == "" {
		path = os.Getenv("PARLEY_CONFIG")
	}
	if path == "" {
		path, asked = filepath.Join(home, "config.yaml"), false
	}
	var c config
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !asked:
	case err != nil:
		return c, hub.Errorf(hub.CodeInvalid, "parley", "the configuration cannot be read: %v", err)
	default:
		dec := yaml.NewDecoder(bytes.NewReader(raw))
		dec.KnownFields(true)
		if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
			return c, configError(path, c, err)
		}
	}
	env, err := environment()
	if err != nil {
		return c, err
	}
	c.overlay(env)
	return c, nil
}

var unknownMember = regexp.MustCompile(`field (\S+) not found in type ([\w.]+)`)

// configError describes an error in a file with the members of whole, in a line.
func configError(path string, whole any, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var several *yaml.TypeError
	if errors.As(err, &several) {
		text = strings.Join(several.Errors, "; ")
	}
	known := members(whole)
	for _, part := range []any{limits{}, runs{}, wakes{}, upAgent{}, gatewayConfig{}, notifyTarget{}} {
		if m := unknownMember.FindStringSubmatch(text); m != nil && strings.HasSuffix(m[2], "."+reflect.TypeOf(part).Name()) {
			known = members(part)
		}
	}
	text = unknownMember.ReplaceAllString(text, "unknown member $1")
	return hub.Errorf(hub.CodeInvalid, "parley", "%s: %s", path, text).WithHint("the members are %s", strings.Join(known, ", "))
}

// members returns the names that a part of the configuration has.
func members(part any) []string {
	var names []string
	t := reflect.TypeOf(part)
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("yaml"))
	}
	return names
}

// environment reads the variables that stand for members.
func environment() (config, error) {
	c := config{
		Addr: os.Getenv("PARLEY_ADDR"), TLSCert: os.Getenv("PARLEY_TLS_CERT"), TLSKey: os.Getenv("PARLEY_TLS_KEY"),
		NoTLSBecause: os.Getenv("PARLEY_NO_TLS_BECAUSE"), Hosts: list(os.Getenv("PARLEY_HOSTS")),
		LogFormat: os.Getenv("PARLEY_LOG_FORMAT"), LogLevel: os.Getenv("PARLEY_LOG_LEVEL"), LogFile: os.Getenv("PARLEY_LOG_FILE"),
		Durability: os.Getenv("PARLEY_DURABILITY"), Store: os.Getenv("PARLEY_STORE"), StorePasswordFile: os.Getenv("PARLEY_STORE_PASSWORD_FILE"),
		StoreNoTLSBecause: os.Getenv("PARLEY_STORE_NO_TLS_BECAUSE"), Machine: os.Getenv("PARLEY_MACHINE"),
		Roots: filepath.SplitList(os.Getenv("PARLEY_ROOTS")), SLA: os.Getenv("PARLEY_SLA"), ResponseTime: os.Getenv("PARLEY_RESPONSE_TIME"), MergeSLA: os.Getenv("PARLEY_MERGE_SLA"), Teamspaces: os.Getenv("PARLEY_TEAMSPACES"), Without: list(os.Getenv("PARLEY_WITHOUT")),
		Repo: os.Getenv("PARLEY_REPO"), Role: os.Getenv("PARLEY_ROLE"), Language: os.Getenv("PARLEY_LANGUAGE"), AID: os.Getenv("PARLEY_AID"),
		URL: os.Getenv("PARLEY_PUBLIC_URL"), Auth: os.Getenv("PARLEY_AUTH"), PeerAllow: list(os.Getenv("PARLEY_PEER_ALLOW")),
		Exchange: os.Getenv("PARLEY_EXCHANGE"),
	}
	for name, into := range map[string]**bool{"PARLEY_LENIENT_FROM": &c.LenientFrom, "PARLEY_NO_INBOX_FILES": &c.NoInboxFiles, "PARLEY_REQUIRE_PROOF": &c.RequireProof, "PARLEY_STRICT_UPDATE": &c.StrictUpdate} {
		s := os.Getenv(name)
		if s == "" {
			continue
		}
		v, err := strconv.ParseBool(s)
		if err != nil {
			return c, hub.Errorf(hub.CodeInvalid, "parley", "%s: %q is not true or false", name, s)
		}
		*into = &v
	}
	return c, nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// overlay replaces the settings of c that top has, too.
func (c *config) overlay(top config) {
	for _, m := range []struct{ into, from *string }{
		{&c.Addr, &top.Addr}, {&c.TLSCert, &top.TLSCert}, {&c.TLSKey, &top.TLSKey}, {&c.NoTLSBecause, &top.NoTLSBecause},
		{&c.LogFormat, &top.LogFormat}, {&c.LogLevel, &top.LogLevel}, {&c.LogFile, &top.LogFile}, {&c.Durability, &top.Durability}, {&c.Store, &top.Store},
		{&c.StorePasswordFile, &top.StorePasswordFile}, {&c.StoreNoTLSBecause, &top.StoreNoTLSBecause}, {&c.Machine, &top.Machine}, {&c.SLA, &top.SLA}, {&c.ResponseTime, &top.ResponseTime}, {&c.MergeSLA, &top.MergeSLA}, {&c.Teamspaces, &top.Teamspaces},
		{&c.Repo, &top.Repo}, {&c.Role, &top.Role}, {&c.Language, &top.Language}, {&c.AID, &top.AID}, {&c.URL, &top.URL},
		{&c.Auth, &top.Auth}, {&c.Exchange, &top.Exchange},
	} {
		if *m.from != "" {
			*m.into = *m.from
		}
	}
	for _, m := range []struct{ into, from *[]string }{
		{&c.Hosts, &top.Hosts}, {&c.Roots, &top.Roots}, {&c.PeerAllow, &top.PeerAllow}, {&c.Without, &top.Without},
	} {
		if len(*m.from) > 0 {
			*m.into = *m.from
		}
	}
	if top.Limits.NegotiationRounds != 0 {
		c.Limits.NegotiationRounds = top.Limits.NegotiationRounds
	}
	for _, m := range []struct{ into, from **bool }{{&c.LenientFrom, &top.LenientFrom}, {&c.NoInboxFiles, &top.NoInboxFiles}, {&c.RequireProof, &top.RequireProof}, {&c.StrictUpdate, &top.StrictUpdate}} {
		if *m.from != nil {
			*m.into = *m.from
		}
	}
}

// logger returns the log that the configuration asks for.
func (c config) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	if c.LogLevel != "" {
		if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, "parley", "log level: %q is not debug, info, warn or error", c.LogLevel)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.LogFormat {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, hub.Errorf(hub.CodeInvalid, "parley", "log format: %q is not text or json", c.LogFormat)
}
