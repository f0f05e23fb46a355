package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/strictyaml"
)

// A config holds the settings of a configuration file. The flags of serve have the
// same members.
type config struct {
	Addr              string           `yaml:"addr"`
	TLSCert           string           `yaml:"tls_cert"`
	TLSKey            string           `yaml:"tls_key"`
	NoTLSBecause      string           `yaml:"no_tls_because"`
	Hosts             []string         `yaml:"hosts"`
	LogFormat         string           `yaml:"log_format"`
	LogLevel          string           `yaml:"log_level"`
	LogFile           string           `yaml:"log_file"`
	Durability        string           `yaml:"durability"`
	Store             string           `yaml:"store"`
	StorePasswordFile string           `yaml:"store_password_file"`
	StoreNoTLSBecause string           `yaml:"store_no_tls_because"`
	Machine           string           `yaml:"machine"`
	LenientFrom       *bool            `yaml:"lenient_from"` // nil if not said
	NoInboxFiles      *bool            `yaml:"no_inbox_files"`
	RequireProof      *bool            `yaml:"require_proof"`
	StrictUpdate      *bool            `yaml:"strict_update"`
	Roots             []string         `yaml:"roots"`
	SLA               string           `yaml:"sla"`
	ResponseTime      string           `yaml:"response_time"`
	MergeSLA          string           `yaml:"merge_sla"`
	Teamspaces        string           `yaml:"teamspaces"`
	Without           []string         `yaml:"without"`
	Runs              runs             `yaml:"runs"`
	Repo              string           `yaml:"repo"`
	Role              string           `yaml:"role"`
	Language          string           `yaml:"language"`
	AID               string           `yaml:"aid"`
	URL               string           `yaml:"url"`
	Auth              string           `yaml:"auth"`
	PeerAllow         []string         `yaml:"peer_allow"`
	Exchange          string           `yaml:"exchange"`
	Limits            limits           `yaml:"limits"`
	Wakes             wakes            `yaml:"wakes"`
	Kept              strictyaml.Count `yaml:"kept"` // processes of kept agents at a time

	Notify  []notifyTarget `yaml:"notify"`  // ways to tell people
	Gateway *gatewayConfig `yaml:"gateway"` // nil if the hub uses none
}

// wakes bounds the turns that mail may start of one agent.
type wakes struct {
	Gap         strictyaml.Period `yaml:"gap"`
	PerHour     strictyaml.Count  `yaml:"per_hour"`
	PairPerHour strictyaml.Count  `yaml:"pair_per_hour"`
}

// runs says how long the files of runs are kept.
type runs struct {
	Keep   strictyaml.Count  `yaml:"keep"`
	MaxAge strictyaml.Period `yaml:"max_age"`
}

// limits may be tightened.
type limits struct {
	DirectPerMinute    strictyaml.Count  `yaml:"direct_per_minute"`
	BroadcastPerHour   strictyaml.Count  `yaml:"broadcast_per_hour"`
	Recipients         strictyaml.Count  `yaml:"recipients"`
	ThreadHops         strictyaml.Count  `yaml:"thread_hops"`
	NegotiationRounds  strictyaml.Count  `yaml:"negotiation_rounds"`
	DisagreementRounds strictyaml.Count  `yaml:"disagreement_rounds"`
	Repeats            strictyaml.Count  `yaml:"repeats"`
	SameType           strictyaml.Count  `yaml:"same_type"`
	TripsPerDay        strictyaml.Count  `yaml:"trips_per_day"`
	RepeatWindow       strictyaml.Period `yaml:"repeat_window"`
	SuspendFor         strictyaml.Period `yaml:"suspend_for"`
	CauseWindow        strictyaml.Period `yaml:"cause_window"`
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
		if err := strictyaml.Decode(path, raw, &c, limits{}, runs{}, wakes{}, gatewayConfig{}, notifyTarget{}); err != nil {
			return c, err
		}
	}
	env, err := environment()
	if err != nil {
		return c, err
	}
	c.overlay(env)
	return c, nil
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
