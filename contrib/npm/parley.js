#!/usr/bin/env node
// Starts the program for this machine that the package carries, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const path = require("node:path");

const name = `parley-${process.platform}-${process.arch}${process.platform === "win32" ? ".exe" : ""}`;
const program = path.join(__dirname, "bin", name);
if (!existsSync(program)) {
  console.error(`parley: this package has no program for ${process.platform} on ${process.arch}`);
  process.exit(2);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (err) => {
  console.error(`parley: ${err.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
