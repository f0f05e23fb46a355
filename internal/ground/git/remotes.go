package git

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
)

// Remotes returns the addresses of the remotes of a repository, as PlainAddress returns them.
func Remotes(ctx context.Context, repository string) (out []string, err error) {
	list, err := In(ctx, "git", repository, "config", "--get-regexp", `^remote\..*\.url$`).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // it has none
	}
	for line := range strings.Lines(string(list)) {
		_, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, PlainAddress(address))
	}
	return out, err
}

// PlainAddress returns the address of a repository without the parts in which two addresses of the
// same one differ: git@host:a/b.git and https://host/a/b are host/a/b.
func PlainAddress(address string) string {
	text := strings.TrimSuffix(strings.TrimSuffix(address, "/"), ".git")
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	} else if host, path, ok := strings.Cut(text, ":"); ok && !strings.Contains(host, "/") { // host:path
		text = host + "/" + path
	}
	host, path, ok := strings.Cut(text, "/")
	if _, named, hasUser := strings.Cut(host, "@"); hasUser {
		host = named
	}
	if !ok {
		return host
	}
	return strings.ToLower(host) + "/" + path
}

// PublicRemotes returns the addresses of the remotes of the repository in a folder, without those that are
// folders of this machine; none if they cannot be read.
func PublicRemotes(ctx context.Context, folder string) []string {
	all, err := Remotes(ctx, folder)
	if err != nil {
		return nil
	}
	isFolder := func(address string) bool { return strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".") }
	return slices.DeleteFunc(all, isFolder)
}
