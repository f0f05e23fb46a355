package reftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// An original is the reference implementation itself: a process that runs in a
// checkout of it. An Agent with an original records and gates the calls, and passes
// them on.
type original struct {
	dir    string // the checkout
	flags  []string
	addr   string
	files  string // folder for files that it receives
	cmd    *exec.Cmd
	ended  chan error // receives when the process ended
	client *http.Client
	proxy  *httputil.ReverseProxy
}

// originalStart is the time that the original has to come up.
const originalStart = time.Minute

// startOriginal starts the original in a checkout. Python is that of the folder .venv in
// it, or else python3.
func startOriginal(dir string, a *Agent) (*original, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	free.Close()
	files, err := os.MkdirTemp("", "reference")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr) // of a listener: cannot fail
	o := &original{dir: dir, addr: addr, files: files, client: a.client, proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})}
	o.flags = []string{"-m", "src.main", "--host", "127.0.0.1", "--port", port, "--agent-id", a.ID, "--repo", a.Repo, "--role", a.Role, "--language", a.Language, "--workspace", files}
	return o, o.start()
}

// start starts the process and waits until it answers.
func (o *original) start() error {
	python := filepath.Join(o.dir, ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	var said bytes.Buffer
	o.cmd = exec.Command(python, o.flags...)
	o.cmd.Dir, o.cmd.Stderr = o.dir, &said
	if err := o.cmd.Start(); err != nil {
		return err
	}
	o.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(o.cmd, o.ended)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(originalStart); ; {
		if _, _, err := o.ask(http.MethodGet, "/health", nil); err == nil {
			return nil
		}
		select {
		case err := <-o.ended:
			return fmt.Errorf("the reference in %s ended: %v\n%s", o.dir, err, said.Bytes())
		case <-deadline:
			o.kill()
			return fmt.Errorf("the reference in %s does not answer", o.dir)
		case <-tick.C:
		}
	}
}

func (o *original) kill() {
	o.cmd.Process.Kill()
	<-o.ended
}

func (o *original) close() {
	o.kill()
	os.RemoveAll(o.files)
}

// ask makes one request of the original.
func (o *original) ask(method, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+o.addr+path, bytes.NewReader(body)) // the client has a timeout
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := o.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// register makes the original tell a peer of its changes.
func (o *original) register(id, endpoint, repo string) {
	body, _ := json.Marshal(map[string]string{"agentId": id, "endpoint": endpoint, "repoName": repo}) // texts: cannot fail
	o.ask(http.MethodPost, "/peers/register", body)                                                   // a test that relies on it fails
}

// healthy reports whether the original still tells a peer of its changes.
func (o *original) healthy(id string) bool {
	_, raw, err := o.ask(http.MethodGet, "/peers", nil)
	var list struct {
		Peers []struct {
			AgentID   string `json:"agentId"`
			IsHealthy bool   `json:"isHealthy"`
		} `json:"peers"`
	}
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return false
	}
	for _, p := range list.Peers {
		if p.AgentID == id {
			return p.IsHealthy
		}
	}
	return false
}
