# The two commands of the README are `make run` and `make test`.

GO      ?= go
BIN     := bin/parley
FUZZ    ?= 5s
KILLS   ?= 50
RUNS    ?= 2
PKGS    := ./...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: run build test bench chaos conformance lint fuzz acp-schema peers agents mutants compliance clean

run: build ## build the hub and start it on 127.0.0.1:7420
	./$(BIN) serve

build: ## build bin/parley, without cgo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-X main.release=$(VERSION)" -o $(BIN) ./cmd/parley

test: ## everything that CI checks
	GO="$(GO)" ./scripts/test

lint: ## formatting, vet and staticcheck
	GO="$(GO)" ./scripts/lint

fuzz: ## every fuzz target, FUZZ=1m each
	GO="$(GO)" FUZZ="$(FUZZ)" ./scripts/fuzz

bench: ## speed, as ratios measured side by side
	$(GO) test -run '^$$' -bench '^BenchmarkTable$$' -benchtime 1x -timeout 60m .
	$(GO) test -run '^$$' -bench . -timeout 30m ./jsonrpc ./acp ./report

chaos: ## kill a hub under load KILLS times and look what is left
	PARLEY_CHAOS_KILLS=$(KILLS) $(GO) test -count 1 -run '^TestChaos$$' -timeout 60m -v ./server

conformance: build ## write docs/conformance.md from the test results
	$(GO) test -json ./... > bin/tests.json || true
	$(GO) run ./scripts/conformance < bin/tests.json > docs/conformance.md

acp-schema: ## fetch the pinned ACP schemas, reduce them and generate the types anew
	GO="$(GO)" ./scripts/acp-schema

peers: ## fetch the agents of other projects that the tests talk to
	GO="$(GO)" ./scripts/peers

agents: build ## install the agents of other projects that can be had, test them all RUNS times and write docs/agents.md
	PARLEY_HOME=$(CURDIR)/.cache GO="$(GO)" ./scripts/agents || true
	./$(BIN) comply --home .cache --list-agents --json > bin/known.json
	for run in $$(seq $(RUNS)); do ./$(BIN) comply --home .cache $$(ls .cache/agents | sed 's/^/--agent /') --timeout-scale 3 --format json || test $$? = 1 || exit 1; done > bin/agents.json
	$(GO) run ./scripts/agentsdoc bin/known.json < bin/agents.json > docs/agents.md

mutants: build ## run the whole suite against every mutant of the good agent and print the kill matrix
	$(GO) build -o bin/goodagent ./scripts/goodagent
	$(GO) run ./scripts/mutants -parley bin/parley -goodagent bin/goodagent

compliance: ## write docs/compliance.md from the rules, tests and mutants
	$(GO) run ./scripts/compliance > docs/compliance.md

clean:
	rm -rf bin
