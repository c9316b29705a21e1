# make            the binary, ./onceonly
# make demo       onceonly on three hosts, before your eyes; needs Go and make, nothing else
# make test       installs what the tests need and is not there (scripts/setup), runs all of them
# make one        some tests of the program, RUN=TestManual: all whose names hold that
# make torture    onceonly on several hosts under every fault, judged afterwards; FOR=1h how long, SEED=words which faults
# make bench      what a run costs, beside what else does the same; BENCH='-rounds 10 -only wall' how much of it
# make check      what CI runs: test, and all that can be checked without running it
# make install    the binary, its manual and completion, below PREFIX
# make dist       what is given away, into dist: binaries, packages, sums

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

RUN =

one:
	@test -n '$(RUN)' || { echo "make one RUN=TestManual: all whose names hold that"; exit 1; }
	$(TEST) -run '$(RUN)' .

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
	CGO_ENABLED=1 go vet -race ./...

staticcheck:
	go run $(STATICCHECK) ./...

shellcheck:
	shellcheck scripts/setup scripts/dist scripts/complete.bash .ci/run

manual:
	mandoc -T lint -W warning man/onceonly.1 man/onceonly-fencing.7

# Where zsh looks: Debian's own not below /usr/share/zsh/site-functions.
ZSH   = $(if $(and $(filter /usr,$(PREFIX)),$(wildcard /etc/debian_version)),vendor-completions,site-functions)
SHARE = $(DESTDIR)$(PREFIX)/share

# Does not build: under sudo there may be no go. The completion's files are what `onceonly completion` prints.
install:
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/man/man1 $(SHARE)/man/man7
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/$(ZSH) $(SHARE)/fish/vendor_completions.d
	install -m 755 onceonly $(DESTDIR)$(PREFIX)/bin/onceonly
	install -m 644 man/onceonly.1 $(SHARE)/man/man1/onceonly.1
	install -m 644 man/onceonly-fencing.7 $(SHARE)/man/man7/onceonly-fencing.7
	install -m 644 scripts/complete.bash $(SHARE)/bash-completion/completions/onceonly
	install -m 644 scripts/complete.zsh $(SHARE)/zsh/$(ZSH)/_onceonly
	install -m 644 scripts/complete.fish $(SHARE)/fish/vendor_completions.d/onceonly.fish

dist:
	scripts/dist

clean:
	rm -rf onceonly dist

.PHONY: build demo test one torture bench race check tools fmt vet staticcheck shellcheck manual install dist clean
.NOTPARALLEL:
