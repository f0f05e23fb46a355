# Installs parley for the user who runs it: downloads a release, verifies its checksum and puts
# the program into a folder of that user. It needs no administrator.
#
#   powershell -ExecutionPolicy Bypass -File install.ps1 [-Version V] [-Dir DIR] [-Key FILE] [-Uninstall]
#
# PARLEY_DOWNLOAD names another address for downloads, such as a mirror, and PARLEY_INSTALL_DIR
# another folder for the program.
[CmdletBinding()]
param(
    [string]$Version = '',
    [string]$Dir = $(if ($env:PARLEY_INSTALL_DIR) { $env:PARLEY_INSTALL_DIR } else { Join-Path $env:LOCALAPPDATA 'Programs\parley' }),
    [string]$Key = '',
    [switch]$Uninstall
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue' # the progress bar makes downloads slow
[Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12 # Windows PowerShell may offer older versions alone
$download = if ($env:PARLEY_DOWNLOAD) { $env:PARLEY_DOWNLOAD } else { '@DOWNLOAD@' }
$program = Join-Path $Dir 'parley.exe'

function Stop-Install([string]$Text) {
    [Console]::Error.WriteLine("install: $Text")
    exit 1
}

if ($Uninstall) {
    if (-not (Test-Path $program)) { Stop-Install "there is no parley in $Dir; name its folder with -Dir" }
    Remove-Item $program
    Remove-Item -Force "$program.before", "$program.old" -ErrorAction SilentlyContinue
    Write-Output "removed $program"
    Write-Output 'Messages and records in your folder .parley stay; remove it if you do not need them.'
    exit 0
}

# Without TLS anybody on the way can replace the release together with its checksums. A signature
# makes that impossible.
if (-not $download -or $download.StartsWith('@')) { Stop-Install 'this installer has no download address; set PARLEY_DOWNLOAD' }
if ($download -notmatch '^(https://|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/|$))') {
    if ($download -notmatch '^http://') { Stop-Install "$download is not an address for downloads; it must begin with https://" }
    if (-not $Key) { Stop-Install "$download is not encrypted; use an address with https, or verify the signature with -Key" }
}
$download = $download.TrimEnd('/')

if ($Version -match '^[0-9]') { $Version = "v$Version" }
if ($Version -and $Version -notmatch '^v[0-9][0-9A-Za-z.+-]*$') { Stop-Install "-Version must be a version such as v1.2.3, got $Version" }
$machine = if ($env:PROCESSOR_ARCHITEW6432) { $env:PROCESSOR_ARCHITEW6432 } else { $env:PROCESSOR_ARCHITECTURE }
$processor = switch ($machine) {
    'AMD64' { 'amd64' }
    'ARM64' { 'arm64' }
    default { Stop-Install "there is no release for the processor $machine" }
}
$from = if ($Version) { "$download/download/$Version" } else { "$download/latest/download" }

function Get-File([string]$Name, [string]$To) {
    try {
        Invoke-WebRequest -UseBasicParsing -Uri "$from/$Name" -OutFile $To
    } catch {
        Stop-Install "cannot download $from/${Name}: $($_.Exception.Message)"
    }
}

$work = Join-Path ([IO.Path]::GetTempPath()) "parley-install-$PID"
New-Item -ItemType Directory -Force $work | Out-Null
try {
    $sums = Join-Path $work 'checksums.txt'
    Get-File 'checksums.txt' $sums

    # Without a key the checksums prove that the download is whole, not who made it.
    if ($Key) {
        if (-not (Get-Command gpg -ErrorAction SilentlyContinue)) { Stop-Install 'gpg is needed to verify the signature' }
        Get-File 'checksums.txt.asc' "$sums.asc"
        $ring = Join-Path $work 'gpg'
        New-Item -ItemType Directory -Force $ring | Out-Null
        & gpg --homedir $ring --batch --quiet --no-autostart --import $Key
        if ($LASTEXITCODE -ne 0) { Stop-Install "gpg cannot read the key $Key" }
        $status = & gpg --homedir $ring --batch --quiet --no-autostart --status-fd 1 --verify "$sums.asc" $sums
        if ($LASTEXITCODE -ne 0) { Stop-Install "the release is not signed with $Key; nothing was installed" }
        if (-not ($status -match '^\[GNUPG:\] GOODSIG ')) { Stop-Install 'the signature of the release is no longer valid; nothing was installed' }
    }

    # The line of this platform has the checksum and the name of the archive.
    $line = Select-String -Path $sums -Pattern "^([0-9a-f]{64}) [ *](parley_[^ /]*_windows_$processor\.zip)$" | Select-Object -First 1
    if (-not $line) { Stop-Install "the release has no program for Windows on $processor" }
    $want = $line.Matches[0].Groups[1].Value
    $name = $line.Matches[0].Groups[2].Value
    $folder = $name -replace '\.zip$', ''
    if ($Version -and $folder -ne "parley_$($Version.Substring(1))_windows_$processor") { Stop-Install "$from has $name, not $Version; nothing was installed" }

    $archive = Join-Path $work $name
    Get-File $name $archive
    $got = (Get-FileHash -Algorithm SHA256 $archive).Hash.ToLowerInvariant()
    if ($got -ne $want) { Stop-Install "the checksum of $name is wrong; nothing was installed" }
    Expand-Archive -Force $archive $work

    # The new program is tried before it replaces another one. A program that runs cannot be
    # overwritten, but it can be renamed; it gets its name back if the new one cannot have it.
    New-Item -ItemType Directory -Force $Dir | Out-Null
    $new = Join-Path $Dir '.parley-new.exe'
    Copy-Item -Force (Join-Path (Join-Path $work $folder) 'parley.exe') $new
    $installed = ''
    $runs = $false
    try {
        $said = @(& $new version)
        $runs = $LASTEXITCODE -eq 0
        if ($runs) { $installed = $said[0] }
    } catch {
        $runs = $false # it is not a program for this machine
    }
    if (-not $runs) {
        Remove-Item -Force $new
        Stop-Install 'the program does not run on this machine; nothing was installed'
    }
    $old = "$program.old"
    if (Test-Path $old) { Remove-Item -Force $old -ErrorAction SilentlyContinue }
    if (Test-Path $program) { Move-Item -Force $program $old }
    try {
        Move-Item $new $program
    } catch {
        if (Test-Path $old) { Move-Item $old $program }
        throw
    }
    Remove-Item -Force $old -ErrorAction SilentlyContinue
} finally {
    Remove-Item -Recurse -Force $work -ErrorAction SilentlyContinue
}

Write-Output "installed ${program}: $installed"
if (($env:PATH -split ';') -contains $Dir) {
    Write-Output 'Next: parley demo'
} else {
    Write-Output 'The folder is not in your PATH. Add it for new windows:'
    Write-Output "  [Environment]::SetEnvironmentVariable('PATH', [Environment]::GetEnvironmentVariable('PATH', 'User') + ';$Dir', 'User')"
    Write-Output "Next: $program demo"
}
