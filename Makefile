# The two commands of the README are `make run` and `make test`.

GO      ?= go
BIN     := bin/parley
FUZZ    ?= 5s
KILLS   ?= 50
RUNS    ?= 2
REACH   ?= 10
DEPTH   ?= 9
WALKS   ?= 10000
MODEL   ?=
URL     ?= https://api.openai.com/v1
PKGS    := ./...
TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
DOWNLOAD ?=
STEP    ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: run build test test-quick test-real reach eval bench chaos attack screenshots recording conformance lint fuzz acp-schema peers agents clients mutants model compliance plugins prices release-dry clean

run: build ## build the hub and start it on 127.0.0.1:7420
	./$(BIN) serve

build: ## build bin/parley, without cgo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-X main.release=$(VERSION)" -o $(BIN) ./cmd/parley

test: ## everything that CI checks: the tests, the race detector and lint
	GO="$(GO)" ./scripts/test

test-quick: ## the tests alone, without the race detector and lint
	GO="$(GO)" ./scripts/test tests

test-real: ## agent CLIs in terminals, agents kept by a hub, the plugin in CLIs, a release from build to upgrade, the page in real browsers, a real OpenClaw gateway, agents of other projects, the services on PostgreSQL, KILLS kills of a hub under load; fails if a part is missing; STEP=wake,guard runs these steps alone
	GO="$(GO)" KILLS="$(KILLS)" STEP="$(STEP)" ./scripts/test-real

reach: ## measure send to model request, REACH times for each CLI, and for each kept agent, into docs/agents-running.md and docs/agents-kept.md, and the tokens that Parley itself costs in each CLI and the requests for an answer, into docs/performance.md; and a task that agents of each vendor end as a commit, into docs/agents-running.md
	./scripts/clis
	PARLEY_HOME=$${PARLEY_PEERS:-$(CURDIR)/.cache/peers} GO="$(GO)" ./scripts/agents claude-agent-acp codex-acp opencode gemini-cli qwen-code copilot-cli
	PARLEY_REAL=1 PARLEY_REACH=$(REACH) $(GO) test -count 1 -run '^Test(Reach(Kept|Tokens)?|RequestsForAnswer|Landed)$$' -timeout 60m -v ./cmd/parley

eval: ## let the model MODEL, which the service URL offers as chat completions, with the key in EVAL_KEY, work through 20 situations; it costs about 100 requests
	@test -n "$(MODEL)" || { echo "usage: make eval MODEL=name [URL=https://...] with the key in EVAL_KEY" >&2; exit 2; }
	PARLEY_EVAL_MODEL="$(MODEL)" PARLEY_EVAL_URL="$(URL)" PARLEY_EVAL_KEY="$$EVAL_KEY" $(GO) test -count 1 -run '^TestEval$$' -timeout 4h -v ./internal/surface/mcptools

lint: ## formatting, vet, staticcheck, and paragraphs in long functions
	GO="$(GO)" ./scripts/lint

fuzz: ## every fuzz target, FUZZ=1m each, and 10,000 schedules of hubs that exchange copies, 200 of them on disk
	GO="$(GO)" FUZZ="$(FUZZ)" ./scripts/fuzz
	PARLEY_SCHEDULES=10000 PARLEY_DISK_SCHEDULES=200 $(GO) test -count 1 -run '^TestConvergence$$' -timeout 30m ./internal/service/contract

bench: ## speed, as ratios measured side by side
	$(GO) test -run '^$$' -bench '^BenchmarkTable$$' -benchtime 1x -timeout 60m ./internal/bench
	$(GO) test -run '^$$' -bench . -timeout 30m ./protocol/jsonrpc ./protocol/acp ./protocol/report

chaos: ## a minute of calls that must all be answered; kill a hub under load KILLS times, then three hubs on one PostgreSQL and the database itself, and count what is lost or duplicated; the last lines are the summaries
	@mkdir -p bin
	PARLEY_LOAD_SECONDS=60 $(GO) test -count 1 -run '^TestEveryCallIsAnswered$$' -timeout 30m ./server
	PARLEY_CHAOS_KILLS=$(KILLS) $(GO) test -count 1 -run '^TestChaos(Postgres|Records)?$$' -timeout 12h -v ./server > bin/chaos.txt 2>&1; code=$$?; cat bin/chaos.txt; grep -o 'chaos: .*' bin/chaos.txt; exit $$code

attack: ## attempts against a hub, many of those that come in numbers, lies about work and honest work of the same shape, and tables of them
	@mkdir -p bin
	PARLEY_ATTACK_FLOOD=75000 PARLEY_HONEST=300 $(GO) test -count 1 -run '^Test(Attack|Lies|HonestWork|RandomHonestWork)$$' -timeout 60m -v ./server > bin/attack.txt 2>&1; code=$$?; grep -v '^=== ' bin/attack.txt; exit $$code
	$(GO) test -count 1 -run '^TestOtherPorts$$' ./internal/surface/web
	$(GO) test -count 1 -run '^(TestNoYesWithoutEvidence|TestHonestUsersLand|TestGateTable)$$' ./internal/service/landing ./internal/service/contract

screenshots: ## write the pictures of the hub's page in docs/pages
	GO=$(GO) ./scripts/screenshots

recording: ## record the commands of docs/first-hour.md into docs/first-hour.cast and docs/first-hour.svg
	GO=$(GO) $(GO) run ./scripts/recording

conformance: ## make test, and write docs/conformance.md from its results
	WRITE_CONFORMANCE=1 GO="$(GO)" ./scripts/test

acp-schema: ## fetch the pinned ACP schemas, reduce them and generate the types anew
	GO="$(GO)" ./scripts/acp-schema

peers: ## fetch the agents of other projects that the tests talk to
	GO="$(GO)" ./scripts/peers

agents: build ## pin the newest versions of other projects' agents, install those that can be had, test those whose reports are older and write docs/agents.md
	GO="$(GO)" ./scripts/agents-newest || true
	PARLEY_HOME=$(CURDIR)/.cache GO="$(GO)" ./scripts/agents || true
	./$(BIN) comply --home .cache --list-agents --json > bin/known.json
	RUNS=$(RUNS) ./scripts/agents-run
	$(GO) run ./scripts/agentsdoc bin/known.json docs/agents > docs/agents.md

clients: build ## fetch the clients of other projects that can be had, test those without a report in docs/clients and write docs/clients.md
	GO="$(GO)" ./scripts/clients || true
	./scripts/clients-run
	$(GO) run ./scripts/clientsdoc protocol/comply/clients docs/clients > docs/clients.md

mutants: build ## run the whole suite against the good agents and every mutant, and print the kill matrix, then every mutant of a client, and the model of reservations against its mutants; about 30 minutes
	$(GO) build -o bin/goodagent ./scripts/goodagent
	$(GO) run ./scripts/mutants -parley bin/parley -goodagent bin/goodagent
	$(GO) test -count 1 -run '^TestMutants$$' ./protocol/comply/client
	PARLEY_MODEL_MUTANTS=1 $(GO) test -count 1 -run '^TestModelMutants$$' -timeout 30m -v ./internal/service/reservation

model: ## run every sequence of DEPTH steps of two agents, a person and a hub about one file, and of 7 steps of all kinds, and WALKS random walks of 100 steps, against the service that reserves files
	PARLEY_MODEL_CORE=$(DEPTH) PARLEY_MODEL_DEPTH=7 PARLEY_MODEL_WALKS=$(WALKS) $(GO) test -count 1 -run '^TestModel(Core|Walks|OnSQLite)?$$' -timeout 12h -v ./internal/service/reservation

compliance: ## write docs/compliance.md and docs/rules from the rules, tests and mutants
	$(GO) run ./scripts/compliance > docs/compliance.md
	$(GO) run ./scripts/compliance -rules docs/rules

plugins: ## write the files with which agent CLIs and the registry of MCP servers install Parley, from scripts/plugins
	$(GO) run ./scripts/plugins

prices: ## write the list prices of models from the newest release of the Python package litellm, which pip downloads
	$(GO) run ./scripts/prices -out internal/service/usage/prices.json

release-dry: build ## write archives, packages, lists of modules and checksums of a release into bin/release, for TARGETS, signed with the gpg key SIGN_KEY if it is given; DOWNLOAD is the address from which installers and upgrades download
	GO="$(GO)" $(GO) run ./scripts/release -version "$(VERSION)" -targets "$(TARGETS)" -sign "$(SIGN_KEY)" -download "$(DOWNLOAD)"

clean:
	rm -rf bin
