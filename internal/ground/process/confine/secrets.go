package confine

import (
	"os"
	"path/filepath"
)

// secrets are the files and folders in a user's home that hold keys, passwords and sessions, and
// those of agent CLIs, which have keys in files with other names, too.
var secrets = []string{
	// Keys, and programs that keep them.
	".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/op", ".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/sops", ".config/age", ".vault-token",
	// Clouds and servers.
	".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".config/flyctl", ".fly", ".kube", ".docker", ".config/containers", ".terraform.d", ".terraformrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".config/rclone", ".s3cfg", ".boto",
	// Code forges and registries of packages.
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".config/tea", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet", ".config/NuGet", ".composer/auth.json", ".config/composer/auth.json", ".hex/hex.config", ".config/configstore",
	// Agent CLIs and models.
	".claude", ".claude.json", ".config/claude", ".codex", ".gemini", ".qwen", ".copilot", ".config/github-copilot", ".config/opencode", ".local/share/opencode", ".cursor", ".config/cursor", ".pi", ".openclaw", ".config/goose", ".local/share/goose", ".continue", ".aider.conf.yml", ".config/amp", ".local/share/amp", ".factory", ".kiro", ".augment", ".windsurf", ".codeium", ".cline", ".hermes", ".config/openai", ".config/anthropic", ".cache/huggingface/token", ".huggingface", ".ollama/id_ed25519",
	// Browsers, mail and shells.
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", "snap/firefox", "snap/chromium", ".var/app", ".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".psql_history", ".mysql_history", ".python_history", ".node_repl_history",
	// Hubs.
	".parley",
}

// systemSecrets are such files of the system. Only root can read most of them.
var systemSecrets = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/letsencrypt", "/run/secrets", "/var/run/secrets", "/var/lib/docker", "/var/lib/containerd"}

// Secrets returns the files and folders of the user and of the system that a confined command
// must not read. Not all of them exist.
func Secrets() []string {
	var paths []string
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range secrets {
			paths = append(paths, filepath.Join(home, filepath.FromSlash(name)))
		}
	}
	return append(paths, systemSecrets...)
}

// Covers reports whether folder is path or contains it. Both are absolute.
func Covers(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
