//go:build unix

package gatewaytest

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/internal/testing/patience"
)

//go:embed testdata/workq
var plugin embed.FS

// Real starts the real gateway, with the queue of testdata/workq as a plugin and
// without a model, which ends with the test. It takes half a minute, so that it is for
// PARLEY_REAL=1. The parts come from scripts/clis.
func Real(t testing.TB) Gateway {
	t.Helper()
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("the real gateway takes half a minute to start: PARLEY_REAL=1 runs it, as make test-real does")
	}

	parts := filepath.Join(acptest.CLIs(t), "openclaw", "node_modules")
	machine := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	node := filepath.Join(parts, "node-"+runtime.GOOS+"-"+machine, "bin", "node")
	if _, err := os.Stat(node); err != nil {
		acptest.Missing(t, "MISSING: %s: run scripts/clis openclaw", node)
	}

	dir := t.TempDir()
	files, err := fs.Sub(plugin, "testdata/workq")
	if err == nil {
		err = os.CopyFS(filepath.Join(dir, "workq"), files)
	}
	if err != nil {
		t.Fatal(err)
	}

	// The port is free at this moment; the gateway takes it a moment later.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	config, err := json.Marshal(map[string]any{
		"gateway":   map[string]any{"mode": "local", "port": port, "bind": "loopback", "auth": map[string]any{"mode": "token", "token": Token}, "controlUi": map[string]any{"enabled": false}},
		"hooks":     map[string]any{"enabled": true, "token": HooksToken, "path": "/hooks"},
		"agents":    map[string]any{"defaults": map[string]any{"workspace": filepath.Join(dir, "workspace")}},
		"logging":   map[string]any{"file": filepath.Join(dir, "gateway.log")},
		"discovery": map[string]any{"mdns": map[string]any{"mode": "off"}},
		"plugins": map[string]any{
			"allow": []string{"workq"}, "slots": map[string]any{"memory": "none"},
			"load":    map[string]any{"paths": []string{filepath.Join(dir, "workq")}},
			"entries": map[string]any{"workq": map[string]any{"enabled": true}},
		},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "openclaw.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, filepath.Join(parts, "openclaw", "openclaw.mjs"), "gateway", "run", "--port", fmt.Sprint(port))
	cmd.Env = []string{
		"PATH=" + filepath.Dir(node) + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "OPENCLAW_STATE_DIR=" + dir, "OPENCLAW_CONFIG_PATH=" + filepath.Join(dir, "openclaw.json"),
		"OPENCLAW_SKIP_CHANNELS=1", "OPENCLAW_NO_AUTO_UPDATE=1", "OPENCLAW_NO_RESPAWN=1",
	}
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	// The whole process group ends with the test, with the processes that the gateway started.
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience.For(20 * time.Second)):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		out.Close()
	})

	// The gateway is ready when it answers on /health. If it ends before, its output says why.
	ctx, cancel := context.WithTimeout(context.Background(), patience.For(3*time.Minute))
	defer cancel()
	g := Gateway{URL: fmt.Sprintf("ws://127.0.0.1:%d", port)}
	for poll := time.NewTicker(200 * time.Millisecond); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/health", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				poll.Stop()
				return g
			}
		}
		select {
		case <-poll.C:
			continue
		case <-ended:
		case <-ctx.Done():
		}
		said, _ := os.ReadFile(out.Name())
		t.Fatalf("the gateway did not start:\n%s", said)
	}
}
