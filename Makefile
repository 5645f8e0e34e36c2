# One command each. `make run` and `make test` are all a newcomer needs.
GO ?= go
STATICCHECK_VERSION := v0.8.2
# default.pgo is for the binary: tests would only take longer to build with it.
export GOFLAGS += -pgo=off
include .ci/budget # FUZZTIME, CRASH_SEEDS, CRASH_SECONDS, SOAK_SHORT_…
# The long soak: half of what this machine reaches, for ten minutes.
SOAK_SECONDS = 600
SOAK_RATE = 0
SOAK_SEED = 0

.PHONY: build run first-message test race fuzz-smoke crash soak soak-short lint ci interop interop-matrix compare compare-recovery bench-append bench-retention bench-recovery bench-longpoll bench-delay bench-hotkey bench-idle bench-vs-apache bench-producer bench-memory bench-dispatch bench-burst bench-limits bench-tails bench-micro pgo fmt

build:
	CGO_ENABLED=0 $(GO) build -pgo=auto -trimpath -o bin/peregrine .

run: build
	./bin/peregrine serve

# The interop suites run by themselves because go test shows their SKIPPED lines only in that form.
test:
	$(GO) test -timeout 20m $$($(GO) list ./... | grep -v /interop$$)
	cd interop && $(GO) test -count=1 -timeout 20m

# -short: a twentieth of the rounds of the longest tests, each with 1 and 4 of event loops and shards.
race:
	$(GO) test -race -short -count=1 -timeout 15m $$($(GO) list ./... | grep -v /interop)

# The program of the README against a broker that `make run` started.
first-message:
	cd interop/java && mvn -q -B dependency:build-classpath -Dclasspath.file=$(CURDIR)/interop/java/target/first.classpath
	cd interop/java && java -cp "$$(cat target/first.classpath)" First.java

# Every fuzz target of the tree for FUZZTIME each (go test takes one target at a time).
fuzz-smoke:
	@set -e; log=$$(mktemp); trap "rm -f $$log" EXIT; for pkg in $$($(GO) list ./...); do \
	  dir=$$($(GO) list -f '{{.Dir}}' $$pkg); \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go 2>/dev/null | sed 's/^func //' | sort -u); do \
	    echo "fuzz $$pkg $$target $(FUZZTIME)"; \
	    $(GO) test $$pkg -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) >$$log 2>&1 || { cat $$log; exit 1; }; \
	  done; \
	done

# Seeded lives of data directories on a disk that tears, lies, fails and is cut off (see broker/crash/doc.go). Ten times the time that
# they get is a hang.
crash:
	$(GO) test ./broker/crash -run TestSeeds -count=1 -v -timeout $$(awk 'BEGIN { print 60 + 10 * $(CRASH_SECONDS) }')s -crash.seeds=$(CRASH_SEEDS) -crash.seconds=$(CRASH_SECONDS)

# Producers, groups that come and go, delays, transactions, failures and one kill -9 against the built binary, with a judge (see interop/soak).
soak: build
	$(GO) run ./interop/soak --seconds $(SOAK_SECONDS) --rate $(SOAK_RATE) --seed $(SOAK_SEED)

soak-short: build
	$(GO) run ./interop/soak --seconds $(SOAK_SHORT_SECONDS) --rate $(SOAK_SHORT_RATE) --seed $(SOAK_SHORT_SEED)

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./...

fmt:
	gofmt -w $$(git ls-files '*.go')

# Real clients (Java, Go, Node, Python) against the built binary; a missing client is a failure here.
interop: build
	INTEROP_ALL=1 PEREGRINE_INTEROP=required PEREGRINE_BIN=$(CURDIR)/bin/peregrine $(GO) test ./interop/... -count=1 -timeout 20m -v

# The same scenarios against both brokers; their outcomes become the table in COMPATIBILITY.md (some 20 minutes).
MATRIX := -run '^(TestJavaClient494|TestJavaClient550|TestGoClient|TestNodeClient|TestPythonClient|TestTransactions|TestBrokerRestart|TestNewGroupsOnATrimmedTopic)$$'
interop-matrix: build
	INTEROP_MATRIX=write PEREGRINE_INTEROP=required PEREGRINE_BIN=$(CURDIR)/bin/peregrine $(GO) test ./interop $(MATRIX) -count=1 -timeout 20m
	INTEROP_MATRIX=write PEREGRINE_INTEROP=required INTEROP_TARGET=apache $(GO) test ./interop $(MATRIX) -count=1 -timeout 40m

# Both brokers on this machine, interleaved: sends per second and latency with ratios and verdicts (some 6 minutes).
compare: build
	$(GO) run ./interop/compare speed

# Starts of both brokers on one directory of some GB, found in three ways (some 5 minutes, 8 GB of disk).
compare-recovery: build
	$(GO) run ./interop/compare recovery

# A message sent during a held pull has to arrive in under 10 ms on an idle machine.
bench-longpoll: build
	$(GO) run ./interop/compare longpoll

# 1,000 messages of delay levels 1, 2 and 3 to an idle broker and to one under half of its load: how late they come (case D03).
bench-delay: build
	$(GO) run ./interop/compare delay

# 1,000,000 messages with one key beside others with unique ones, in turns, and 100 queries for that key (case I07).
bench-hotkey: build
	$(GO) run ./interop/compare hotkey --duration 3s --rounds 9

# Start to ready on an empty store; CPU and memory of an idle broker.
bench-idle: build
	$(GO) run ./interop/compare idle

# Every row of the budget on the original, peregrine and a bare gnet server, in turn (some 40 minutes; BUDGET='--only JSON --rounds 1' for less).
bench-vs-apache: build
	$(GO) run ./interop/compare budget --rounds 5 --duration 5s $(BUDGET)

# Apache's own benchmark Producer (rocketmq-example, which Maven brings: PEREGRINE_INTEROP=required for the first time), unmodified, at both brokers in turn (some 4 minutes).
bench-producer: build
	$(GO) run ./interop/compare producer --rounds 3 --duration 20s $(PRODUCER)

# Anonymous memory of both brokers with nothing, 1,000 connections, 10,000 queues (some 2 minutes; MEMORY='--topics 125' for 1,000 queues).
bench-memory: build
	$(GO) run ./interop/compare memory $(MEMORY)

# How long queues and index need after 60 s of sends at full rate, and what the index costs sends (some 3 minutes, 20 GB of disk; DISPATCH='--burst 10s --rounds 1' for less).
bench-dispatch: build
	$(GO) run ./interop/compare dispatch --rounds 3 --duration 10s $(DISPATCH)

# Consumers beside producers at 80 % of what the machine sustains for 5 minutes (case C21; 20 GB of disk; BURST='--burst 30s' for less).
bench-burst: build
	$(GO) run ./interop/compare burst --burst 5m $(BURST)

# What this machine can do at most.
bench-limits: build
	$(GO) run ./interop/compare limits --duration 5s

# Time and allocations of the parts of the hot path: headers, records, append, dispatch, index, reads.
bench-micro:
	$(GO) test ./wire ./internal/message ./store ./dispatch ./flush -run '^$$' -bench 'Decode|Append|ParseView|EncodeTo|Properties|HotRead|Dispatch|Index|Request' -benchmem -cpu 1

# Whether p99.9 of deliveries at half load stays while files end, topics are made, somebody scrapes, profiles, reads slowly or old messages (some 10 minutes).
bench-tails: build
	$(GO) run ./interop/compare tails --rounds 3 --duration 10s

# How long starts take: many files, many queues, after a clean stop and after kill -9; GB/s of a scan.
bench-recovery:
	$(GO) test ./store -run TestMeasureRecovery -measure -v -timeout 20m

# The two ways of appending and syncing the log, side by side, in both flush modes.
bench-append:
	$(GO) test ./store -run TestMeasureAppendForms -measure -v -timeout 20m

# What sends feel while ten files of 1 GiB are deleted.
bench-retention:
	$(GO) test ./store -run TestMeasureRetention -measure -v -timeout 20m

# The profile that the build optimises for (some 50 seconds on a quiet machine).
pgo: build
	perf/pgo.sh bin/peregrine

ci:
	bash .ci/run
