package contract

import (
	"testing"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/git"
)

func TestRepositoryOfAProject(t *testing.T) {
	remotes := []string{git.PlainAddress("git@Example.com:acme/web.git")}
	for _, test := range []struct {
		name    string
		repo    coord.Repo
		remotes []string
		want    bool
	}{
		{"the address of a remote", coord.Repo{Name: "frontend", URL: "https://example.com/acme/web/"}, remotes, true},
		{"another address with the name of the folder", coord.Repo{Name: "app", URL: "https://example.com/other/app"}, remotes, false},
		{"the name of the folder", coord.Repo{Name: "app"}, remotes, true},
		{"the name of a remote", coord.Repo{Name: "web"}, remotes, true},
		{"another name", coord.Repo{Name: "api"}, remotes, false},
		{"an address, and a repository without remotes", coord.Repo{Name: "app", URL: "https://example.com/acme/app"}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := isRepository(test.repo, "/src/app", test.remotes); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for address, want := range map[string]string{
		"ssh://git@example.com/acme/web.git": "example.com/acme/web", "https://user:key@example.com/acme/web": "example.com/acme/web",
		"example.com:acme/web": "example.com/acme/web", "/srv/git/web.git": "/srv/git/web", "ssh://git@example.com:2222/acme/web": "example.com:2222/acme/web",
	} {
		if got := git.PlainAddress(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
