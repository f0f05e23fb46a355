#!/usr/bin/env node
// Starts the program for this machine, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

// The program is in the package of this platform, which npm installs with this one.
const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`@parley-agents/parley-${platform}/bin/parley${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`parley: the package @parley-agents/parley-${platform} is missing: there is no program for ${platform}, or npm left out optional packages`);
  process.exit(2);
}

// Signals are handled before the program starts: one that comes right after its start would end this
// script and leave the program behind. A terminal sends SIGINT to the program, too, which ends at
// once with a second one.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
  console.error(`parley: ${err.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.exitCode = 128 + constants.signals[signal]; // if node ignores the signal, as it does SIGPIPE
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
