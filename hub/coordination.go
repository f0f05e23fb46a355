package hub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub/coord"
)

// CheckRepoRole reports CodeInvalid for a role that is not one of RepoRoles.
func CheckRepoRole(op, role string) error {
	if slices.Contains(coord.RepoRoles, role) {
		return nil
	}
	return Errorf(CodeInvalid, op, "unknown repository role %q", role).WithHint("use one of %s", strings.Join(coord.RepoRoles, ", "))
}

// CheckPermissions returns the list without duplicates, or Contributor for an
// empty one. It reports CodeInvalid for a permission that cannot be granted.
func CheckPermissions(op string, list []coord.Permission) ([]coord.Permission, error) {
	if len(list) == 0 {
		list = coord.Contributor
	}
	var out []coord.Permission
	for _, p := range list {
		if short, ok := strings.CutPrefix(string(p), "project:"); ok && (short == string(coord.PermitEvidence) || short == string(coord.PermitDeploy)) {
			p = coord.Permission(short)
		}
		if !slices.Contains(coord.Grantable, p) {
			all := strings.Trim(fmt.Sprint(coord.Grantable), "[]")
			return nil, Errorf(CodeInvalid, op, "unknown permission %q", p).WithHint("the permissions are %s", strings.ReplaceAll(all, " ", ", "))
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}
