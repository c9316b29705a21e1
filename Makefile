# make            the binary, ./onceonly
# make demo       onceonly on three hosts, before your eyes; needs Go and make, nothing else
# make test       installs what the tests need and is not there (scripts/setup), runs all of them
# make torture    onceonly on several hosts under every fault, judged afterwards; FOR=1h how long, SEED=words which faults
# make bench      what a run costs, beside what else does the same; BENCH='-rounds 10 -only wall' how much of it
# make check      what CI runs: test, and all that can be checked without running it
# make install    the binary and its manual, below PREFIX

# Not /usr/local: cron's PATH is /usr/bin:/bin.
PREFIX  = /usr
DESTDIR =

# Every build leaves out what urfave/cli would link for documents and suggestions; so do vet and the tests.
export CGO_ENABLED = 0
export GOFLAGS += -trimpath -tags=urfave_cli_no_docs,urfave_cli_no_suggest

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
TEST        = go test -count=1 -p=1 -timeout=30m

build:
	go build -o onceonly .

demo: build
	go run ./scripts/demo ./onceonly

test:
	scripts/setup
	$(TEST) ./...

FOR  = 5m
SEED =

torture:
	scripts/setup check
	go run ./scripts/torture -v -for $(FOR) $(if $(SEED),-seed $(SEED))

BENCH =

bench:
	scripts/setup bench
	go run ./scripts/bench $(BENCH)

race: export CGO_ENABLED = 1
race:
	scripts/setup check
	$(TEST) -race ./...

check: tools fmt vet staticcheck shellcheck manual test race

tools:
	scripts/setup check

fmt:
	@echo gofmt -l .
	@unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { echo "$$unformatted"; exit 1; }

vet:
	go vet ./...

staticcheck:
	go run $(STATICCHECK) ./...

shellcheck:
	shellcheck scripts/setup scripts/complete.bash .ci/run

manual:
	mandoc -T lint -W warning man/onceonly.1 man/onceonly-fencing.7

# Does not build: under sudo there may be no go.
install:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man7
	install -m 755 onceonly $(DESTDIR)$(PREFIX)/bin/onceonly
	install -m 644 man/onceonly.1 $(DESTDIR)$(PREFIX)/share/man/man1/onceonly.1
	install -m 644 man/onceonly-fencing.7 $(DESTDIR)$(PREFIX)/share/man/man7/onceonly-fencing.7

clean:
	rm -rf onceonly dist

.PHONY: build demo test torture bench race check tools fmt vet staticcheck shellcheck manual install clean
.NOTPARALLEL:
