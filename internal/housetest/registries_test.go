package housetest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// registries are the hosts of package registries, with spaces for dots, so that this file has no
// address of one.
const registries = `
	registry npmjs org
	registry yarnpkg com
	pypi org
	files pythonhosted org
	proxy golang org
	sum golang org
	crates io
	rubygems org
	registry modelcontextprotocol io
	docker io
	ghcr io
	quay io
`

// TestNoAddressOfARegistry checks that no file of the repository says where packages come from: the
// tools' own settings do, on the machine of the reader.
func TestNoAddressOfARegistry(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("this is not a checkout: %v", err)
	}
	var hosts [][]byte
	for line := range strings.Lines(strings.TrimSpace(registries)) {
		hosts = append(hosts, []byte(strings.ReplaceAll(strings.TrimSpace(line), " ", ".")))
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // removed, or a folder
		}
		for _, host := range hosts {
			if bytes.Contains(bytes.ToLower(text), host) {
				t.Errorf("%s has the address of a package registry, %s", name, host)
			}
		}
	}
}
