#!/bin/sh
# Installs parley for the user who runs it: downloads a release, verifies its checksum and puts
# the program into a folder of that user. It never needs root.
#
#   sh install.sh [--version V] [--dir DIR] [--key FILE] [--uninstall]
#
# PARLEY_DOWNLOAD names another address for downloads, such as a mirror, and PARLEY_INSTALL_DIR
# another folder for the program.
set -eu

download=${PARLEY_DOWNLOAD:-@DOWNLOAD@}
dir=${PARLEY_INSTALL_DIR:-${HOME:?HOME is not set}/.local/bin}
version=
key=
uninstall=
redirects==http,https # protocols that curl may be redirected to

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

usage() {
  say "usage: sh install.sh [--version V] [--dir DIR] [--key FILE] [--uninstall]

  --version V   the release to install, such as v1.2.3 (default the newest)
  --dir DIR     the folder of the program (default ~/.local/bin)
  --key FILE    a public gpg key; the checksums must be signed with it
  --uninstall   remove the program; messages and records stay"
}

value() { # option, number of arguments
  [ "$2" -ge 2 ] || fail "$1 needs a value; see --help"
}

fetch() { # address, file
  if has curl; then
    curl -fsSL --proto-redir "$redirects" --retry 2 -o "$2" "$1"
  elif has wget; then
    wget -q -O "$2" "$1"
  else
    fail "curl or wget is needed to download the release"
  fi
}

loopback() { # address
  case $1 in
  *@*) return 1 ;; # the host is behind the @
  http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]* | http://\[::1\] | http://\[::1\][:/]*) return 0 ;;
  esac
  return 1
}

sum() { # file
  if has sha256sum; then
    sha256sum "$1" | cut -d' ' -f1
  elif has shasum; then
    shasum -a 256 "$1" | cut -d' ' -f1
  elif has openssl; then
    openssl dgst -sha256 -r "$1" | cut -d' ' -f1
  else
    fail "sha256sum, shasum or openssl is needed to verify the release"
  fi
}

# Everything is in one function, so that a script that was downloaded in part does nothing.
main() {
  while [ $# -gt 0 ]; do
    case $1 in
    --version) value "$1" $#; version=$2; shift 2 ;;
    --version=*) version=${1#*=}; shift ;;
    --dir) value "$1" $#; dir=$2; shift 2 ;;
    --dir=*) dir=${1#*=}; shift ;;
    --key) value "$1" $#; key=$2; shift 2 ;;
    --key=*) key=${1#*=}; shift ;;
    --uninstall) uninstall=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *) fail "unknown option $1; see --help" ;;
    esac
  done
  [ -n "$dir" ] || fail "--dir must not be empty"
  case $dir in
  /*) ;;
  *) dir=$PWD/$dir ;;
  esac
  [ "$dir" = / ] || dir=${dir%/} # as the folders of PATH are usually written
  case $version in
  *[!0-9A-Za-z.+-]*) fail "--version must be a version such as v1.2.3, got $version" ;;
  '' | v[0-9]*) ;;
  [0-9]*) version=v$version ;;
  *) fail "--version must be a version such as v1.2.3, got $version" ;;
  esac

  if [ -n "$uninstall" ]; then
    [ -e "$dir/parley" ] || fail "there is no parley in $dir; name its folder with --dir"
    rm -f "$dir/parley" "$dir/parley.before" || fail "cannot remove $dir/parley"
    say "removed $dir/parley"
    say "Messages and records in ${PARLEY_HOME:-$HOME/.parley} stay; remove the folder if you do not need them."
    exit 0
  fi

  # Without TLS anybody on the way can replace the release together with its checksums. A signature
  # makes that impossible.
  case $download in
  '' | @*) fail "this installer has no download address; set PARLEY_DOWNLOAD" ;;
  https://*) ;;
  http://*) [ -n "$key" ] || loopback "$download" || fail "$download is not encrypted; use an address with https, or verify the signature with --key" ;;
  *) fail "$download is not an address for downloads; it must begin with https://" ;;
  esac
  download=${download%/}
  case $download in
  https://*) redirects==https ;; # wget has no such option
  esac

  # The platform, in the words of the release.
  case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there is no release for $(uname -s); on Windows use install.ps1" ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) processor=amd64 ;;
  aarch64 | arm64) processor=arm64 ;;
  *) fail "there is no release for the processor $(uname -m)" ;;
  esac

  work=$(mktemp -d)
  new=$dir/.parley.$$
  trap 'rm -rf "$work" "$new"' EXIT
  trap 'exit 130' INT TERM HUP

  if [ -n "$version" ]; then
    from=$download/download/$version
  else
    from=$download/latest/download
  fi
  fetch "$from/checksums.txt" "$work/checksums.txt" || fail "cannot download $from/checksums.txt"

  # Without a key the checksums prove that the download is whole, not who made it.
  if [ -n "$key" ]; then
    has gpg || fail "gpg is needed to verify the signature"
    [ -r "$key" ] || fail "cannot read the key $key"
    fetch "$from/checksums.txt.asc" "$work/checksums.txt.asc" || fail "the release is not signed: cannot download $from/checksums.txt.asc"
    mkdir -m 700 "$work/gpg"
    gpg --homedir "$work/gpg" --batch --quiet --no-autostart --import "$key" 2>/dev/null || fail "gpg cannot read the key $key"
    gpg --homedir "$work/gpg" --batch --quiet --no-autostart --status-fd 1 --verify "$work/checksums.txt.asc" "$work/checksums.txt" >"$work/status" 2>/dev/null ||
      fail "the release is not signed with $key; nothing was installed"
    grep -q '^\[GNUPG:\] GOODSIG ' "$work/status" || fail "the signature of the release is no longer valid; nothing was installed"
  fi

  # The line of this platform has the checksum and the name of the archive.
  line=$(grep -E "^[0-9a-f]{64} [ *]parley_[^ /]*_${system}_${processor}\.tar\.gz\$" "$work/checksums.txt" | head -n 1) || true
  [ -n "$line" ] || fail "the release has no program for $system on $processor"
  want=${line%% *}
  archive=parley_${line#* ?parley_}
  name=${archive%.tar.gz}
  if [ -n "$version" ]; then
    [ "$name" = "parley_${version#v}_${system}_$processor" ] || fail "$from has $archive, not $version; nothing was installed"
  fi
  fetch "$from/$archive" "$work/$archive" || fail "cannot download $from/$archive"
  got=$(sum "$work/$archive") || exit 1
  [ "$got" = "$want" ] || fail "the checksum of $archive is wrong; nothing was installed"

  gzip -dc "$work/$archive" | (cd "$work" && tar xf - "$name/parley") || true
  [ -f "$work/$name/parley" ] || fail "$archive has no program"

  # The program appears whole or not at all, also while an earlier one runs.
  [ ! -d "$dir/parley" ] || fail "$dir/parley is a folder; choose another folder with --dir"
  mkdir -p "$dir" || fail "cannot make the folder $dir; choose another one with --dir"
  cp "$work/$name/parley" "$new" 2>/dev/null || fail "cannot write to $dir; choose another folder with --dir"
  chmod 755 "$new"
  installed=$("$new" version 2>/dev/null) || fail "the program does not run on this machine; nothing was installed"
  mv -f "$new" "$dir/parley"

  say "installed $dir/parley: $(printf '%s\n' "$installed" | head -n 1)"
  case :$PATH: in
  *:"$dir":*)
    first=$(command -v parley) || first=$dir/parley
    [ "$first" = "$dir/parley" ] || say "Another parley comes first in your PATH: $first"
    say "Next: parley demo"
    ;;
  *)
    say "The folder is not in your PATH. Add it:"
    say "  export PATH=\"$dir:\$PATH\""
    say "Next: $dir/parley demo"
    ;;
  esac
}

main "$@"
