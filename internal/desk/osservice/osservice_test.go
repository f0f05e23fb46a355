package osservice

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// TestServiceFiles reads the files for other systems as their parsers would.
func TestServiceFiles(t *testing.T) {
	for _, system := range []string{"darwin", "windows"} {
		m := managers[system]
		home := `/Users/ann & bob/<.parley>`
		text := m.render([]string{m.quote("/opt/parley"), m.quote("serve"), m.quote("--home"), m.quote(home)})
		contains(t, text, m.quote(home))

		var words strings.Builder
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", system, err, text)
			}
			if chars, ok := token.(xml.CharData); ok {
				words.Write(chars)
			}
		}
		contains(t, words.String(), "/opt/parley", home)
		if len(m.install("f")) == 0 || len(m.uninstall("f")) == 0 || len(m.status) == 0 {
			t.Errorf("%s has no commands", system)
		}
	}
}

// TestServiceOfAnotherHome holds that a file which describes another home is neither taken
// for this service nor replaced.
func TestServiceOfAnotherHome(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "service")
	s := &Service{File: file, hub: Hub{Home: filepath.Join(folder, "home"), LogFile: "hub.log"}, manager: systemd}
	if err := s.Require(); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("without a file: %v, want %s", err, hub.CodeNotFound)
	}

	other := systemd.render([]string{systemd.quote("/opt/parley"), systemd.quote("/elsewhere")})
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if installed, err := s.Installed(); installed || hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("another home: %t, %v, want %s", installed, err, hub.CodeConflict)
	}
	if changed, err := s.Add(t.Context()); changed || hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("add: %t, %v, want %s", changed, err, hub.CodeConflict)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != other {
		t.Errorf("the file was changed: %q, %v", raw, err)
	}
}

// TestServiceThatIsInstalled holds that an equal file is left as it is.
func TestServiceThatIsInstalled(t *testing.T) {
	folder := t.TempDir()
	s := &Service{File: filepath.Join(folder, "service"), hub: Hub{Home: filepath.Join(folder, "home"), LogFile: "hub.log", Config: "c.yaml"}, manager: systemd}
	text, err := s.Describe()
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Abs("c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, text, `"serve" "--home" `+systemd.quote(s.hub.Home), `"--config" `+systemd.quote(config))

	if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := s.Add(t.Context()); changed || err != nil {
		t.Errorf("add: %t, %v", changed, err)
	}
	if _, err := os.Stat(s.hub.Home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home was made: %v", err)
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}

// TestUnit has systemd read the unit, with a home whose name has signs that mean something to it.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	dir := t.TempDir()
	verify := func(text string) string {
		t.Helper()
		file := filepath.Join(dir, UnitName)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(analyze, "--user", "verify", "--man=no", file)
		cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := systemd.render([]string{systemd.quote(self), systemd.quote("serve"), systemd.quote("--home"), systemd.quote(dir + `/a home with %h $HOME "and" \\`)})
	if out := verify(unit); out != "" {
		t.Errorf("systemd-analyze says: %s\n%s", out, unit)
	}
	if out := verify(strings.Replace(unit, "Restart=on-failure", "Restart=perhaps", 1)); !strings.Contains(out, "perhaps") {
		t.Errorf("systemd-analyze does not see a wrong value: %q", out)
	}
}
