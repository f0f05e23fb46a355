// Package osservice makes a hub a service of its user, which the operating system starts
// when the user logs in and starts again after a failure: systemd on Linux, launchd on
// macOS, the task scheduler on Windows.
//
// A user has one service, described by one file. A service of another home is never
// changed, a hub that runs is never disturbed, and an installation that fails leaves no
// file behind. The package prints nothing and asks no questions.
//
// The files for all systems are tested here; the commands of systemd are tested through
// parley hub service in cmd/parley.
package osservice

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/server"
)

// A Hub is the hub that a service runs.
type Hub struct {
	Home    string // absolute path
	Config  string // its configuration file; "" for the one in the home
	LogFile string
	Stop    string // the command line that stops a hub in the home, for a hint
}

// A Service is the hub of one home as a service of the user.
type Service struct {
	Manager string // the name of the program that runs services here
	File    string // describes the service to the manager
	Note    string // a sentence for the user of a service that was installed; may be empty

	hub     Hub
	manager manager
}

// New returns the service of a hub on this system. It reports CodeNotEnabled on a system
// whose manager of services is not known.
func New(h Hub) (*Service, error) {
	m, ok := managers[runtime.GOOS]
	if !ok {
		return nil, hub.Errorf(hub.CodeNotEnabled, "osservice.New", "parley does not support services on %s", runtime.GOOS).WithHint(`start the hub with "parley serve"`)
	}
	userHome, err := os.UserHomeDir()
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "osservice.New", "cannot find your home folder: %v", err)
	}
	if strings.ContainsAny(h.Home, "\n\r") {
		return nil, hub.Errorf(hub.CodeInvalid, "osservice.New", "the path of the home contains a line break: %q", h.Home)
	}
	return &Service{Manager: m.name, File: m.path(userHome), Note: m.note, hub: h, manager: m}, nil
}

// Describe returns the content of the service's file.
func (s *Service) Describe() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	arguments := []string{self, "serve", "--home", s.hub.Home, "--log-file", s.hub.LogFile}
	if s.hub.Config != "" {
		config, err := filepath.Abs(s.hub.Config)
		if err != nil {
			return "", err
		}
		arguments = append(arguments, "--config", config)
	}

	for i, argument := range arguments {
		arguments[i] = s.manager.quote(argument)
	}
	return s.manager.render(arguments), nil
}

// Installed reports whether the service is installed. It reports CodeConflict if the
// service of the user is that of another home.
func (s *Service) Installed() (bool, error) {
	text, err := s.installed()
	return text != "", err
}

// installed returns the content of the service's file, or "" if there is none.
func (s *Service) installed() (string, error) {
	raw, err := os.ReadFile(s.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !strings.Contains(string(raw), s.manager.quote(s.hub.Home)):
		return "", hub.Errorf(hub.CodeConflict, "osservice.Installed", "the service in %s runs a hub in a home other than %s", s.File, s.hub.Home).
			WithHint("pass the home that the file names with --home")
	}
	return string(raw), nil
}

// Require returns nil if the service is installed. It reports CodeNotFound if none is,
// and CodeConflict if the service of the user is that of another home.
func (s *Service) Require() error {
	installed, err := s.Installed()
	if err == nil && !installed {
		return hub.Errorf(hub.CodeNotFound, "osservice.Require", "no service is installed: %s does not exist", s.File).WithHint(`run "parley hub service install" to install it`)
	}
	return err
}

// Add installs the service and starts it. It reports changed false if the same service is
// installed already. A service of the same home that differs is replaced; a failure leaves
// no file behind. It reports CodeConflict if a hub runs in the home.
func (s *Service) Add(ctx context.Context) (changed bool, err error) {
	text, err := s.Describe()
	if err != nil {
		return false, err
	}
	old, err := s.installed()
	if err != nil || old == text {
		return false, err
	}

	if old != "" {
		if err := s.Remove(ctx); err != nil {
			return false, err
		}
	}
	if server.Running(s.hub.Home) {
		return false, hub.Errorf(hub.CodeConflict, "osservice.Add", "a hub is already running in %s", s.hub.Home).WithHint("stop it first: %s", s.hub.Stop)
	}

	if err := s.write(text); err != nil {
		return false, err
	}
	if err := s.commands(ctx, s.manager.install(s.File)); err != nil {
		os.Remove(s.hub.Home) // if it is empty
		return false, errors.Join(err, os.Remove(s.File))
	}
	return true, nil
}

// write makes the folders of the service and its file.
func (s *Service) write(text string) error {
	if err := os.MkdirAll(filepath.Dir(s.File), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(s.hub.Home, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(s.File, []byte(text), 0o644)
}

// Remove stops the service and removes its file.
func (s *Service) Remove(ctx context.Context) error {
	if err := s.commands(ctx, s.manager.uninstall(s.File)); err != nil {
		return err
	}
	if err := os.Remove(s.File); err != nil {
		return err
	}
	return s.commands(ctx, s.manager.removed)
}

// Restart ends the hub of the service and starts it again.
func (s *Service) Restart(ctx context.Context) error {
	if err := s.Require(); err != nil {
		return err
	}
	return s.commands(ctx, s.manager.restart)
}

// Status reports whether the service and its hub run. detail is the first line that the
// manager says about the service.
func (s *Service) Status(ctx context.Context) (running bool, detail string) {
	said, err := s.command(ctx, s.manager.status)
	detail, _, _ = strings.Cut(said, "\n")
	return err == nil && server.Running(s.hub.Home), detail
}

// command runs a command of the manager.
func (s *Service) command(ctx context.Context, words []string) (string, error) {
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, hub.Errorf(hub.CodeDegraded, "osservice.Service", "%s: %s", strings.Join(words, " "), text+" ("+err.Error()+")").
			WithHint(`%s does not run services for this user here; start the hub with "parley serve"`, s.Manager)
	}
	return text, nil
}

func (s *Service) commands(ctx context.Context, all [][]string) error {
	for _, words := range all {
		if _, err := s.command(ctx, words); err != nil {
			return err
		}
	}
	return nil
}
