# SPDX-License-Identifier: BSD-2-Clause
# make help says what there is.

SHELL := /bin/bash
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := dist/bin

# Programs that exist: each is a link to the one binary, which acts by the name it is started with.
PROGRAMS := varnishd varnishlog varnishlog-json varnishncsa varnishstat varnishtop varnishhist varnishadm

# What `make profile` saw of the program at work: the compiler inlines and lays out by it.
PROFILE := $(CURDIR)/bench/lacquer.profdata

# Where `make run` listens, its storage, and further options for varnishd (or, without BACKEND and VCL, for the demo).
LISTEN ?= 127.0.0.1:6081
STORAGE ?= malloc,256m
# Where the page of `lacquer watch` is.
WATCH ?= 127.0.0.1:6085
OPTIONS ?=
# Where `make install` puts the programs; packagers set DESTDIR, too.
PREFIX ?= /usr/local
DESTDIR ?=
# What keeps the log of `make fleet`: nats or redis.
ENGINE ?= nats

.DEFAULT_GOAL := help
.PHONY: help run fleet quick build dist install book sbom papers deb rpm tar release committed image-root test check soak bench profile clean cargo packages

help:
	@echo 'make run BACKEND=host:port   build if need be, and cache what that server has (or http[s]://host:port)'
	@echo '         VCL=file                instead of BACKEND; with neither a demo'
	@echo '         LISTEN=$(LISTEN) STORAGE=$(STORAGE) WATCH=$(WATCH) OPTIONS="further options of varnishd"'
	@echo 'make fleet                   three caches that purge together, step by step; ENGINE=$(ENGINE) (or redis) keeps their log'
	@echo 'make quick                   $(TARGET)/debug/ with the same programs, not optimised: what tests use'
	@echo 'make build                   $(BIN)/ with lacquer, $(PROGRAMS)'
	@echo 'make dist                    the same as packages have it: one or two per cent faster; its link takes minutes on one core'
	@echo 'make install PREFIX=/usr/local  programs, links, manuals, units and default.vcl of $(BIN), below PREFIX (and DESTDIR)'
	@echo '         FORCE=1                 also over files that another program has installed there'
	@echo 'make book                    dist/book, the book as a site: open dist/book/index.html'
	@echo 'make sbom                    dist/sbom, what the program is built from (CycloneDX), and the licences'
	@echo 'make deb                     dist/lacquer_*.deb, which takes the place of the package varnish'
	@echo 'make rpm                     dist/lacquer-*.rpm, the same for Fedora, RHEL and their kin (needs rpmbuild)'
	@echo 'make tar                     dist/lacquer-*.tar.gz, the same for any Linux, with a script that installs it'
	@echo 'make release                 dist/release: these three, sbom.cdx.json, SHA256SUMS; one commit gives the same files everywhere'
	@echo 'make image-root              dist/image, the root directory of a container image (packaging/container)'
	@echo 'make test                    unit tests, black-box cases, simulator, whole-program suites; one kind or suite: tests/run NAME'
	@echo 'make check                   formatting, clippy, layers, licences and sources of dependencies, documents, scripts, unfinished code'
	@echo 'make soak                    the tests again, long: many random cases, full-size beds'
	@echo 'make profile                 what the compiler is told of the program at work, made anew (needs llvm-tools)'
	@echo 'make bench                   CPU per request beside varnishd, nginx and haproxy, as far as they are here'

cargo:
	@scripts/need-cargo '$(CARGO)'

packages:
	@scripts/need-packages

# $(call optimised,PROFILE): builds with what `make profile` saw, and puts the programs into $(BIN). The same sources make the same program wherever they
# are and whenever that is (scripts/stable-names; for what is in C, CFLAGS, and SOURCE_DATE_EPOCH for its __TIME__). Paths may have blanks: the crate cc
# heeds quotes in CFLAGS if it is told to, and abspath would split a path.
CARGO_DIRECTORY := $(or $(CARGO_HOME),$(HOME)/.cargo)
TARGET_PATH := $(if $(filter /%,$(TARGET)),$(TARGET),$(CURDIR)/$(TARGET))
define optimised
	SOURCE_DATE_EPOCH=0 LACQUER_PROFILE='$(PROFILE)' RUSTC_WRAPPER='$(CURDIR)/scripts/stable-names' RUSTFLAGS='$(strip $(RUSTFLAGS) $(shell RUSTFLAGS='$(RUSTFLAGS)' scripts/link-flags))' \
	CC_SHELL_ESCAPED_FLAGS=1 CFLAGS='$(strip $(CFLAGS) "-ffile-prefix-map=$(CARGO_DIRECTORY)=/cargo" "-ffile-prefix-map=$(TARGET_PATH)=/lacquer/target")' \
	$(CARGO) build --profile $(1) -p lacquer
	@mkdir -p $(BIN)
	@install -m 755 '$(TARGET)/$(1)/lacquer' $(BIN)/lacquer.new && mv $(BIN)/lacquer.new $(BIN)/lacquer
	@for p in $(PROGRAMS); do ln -sfn lacquer $(BIN)/$$p; done
	@rm -rf dist/man && $(BIN)/lacquer man -d dist/man
endef

build: cargo
	$(call optimised,release)

# What packages and figures are made of. The symbols are a file of their own.
dist: cargo
	$(call optimised,dist)
	@objcopy --only-keep-debug $(BIN)/lacquer $(BIN)/lacquer.debug

# Of a build that is there: nothing is compiled as root.
install:
	@[ ! -L '$(BIN)/lacquer' ] || echo 'make install: this is the quick build, which takes several times the CPU time; make build makes the full one' >&2
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && STRIP=: packaging/tar/lay-out '$(BIN)/lacquer' dist "$$work/tree" >/dev/null && \
	DESTDIR='$(DESTDIR)' "$$work/tree/install" $(if $(FORCE),--force) '$(PREFIX)'

# With the full build if there is one, else a quick one: it writes the reference.
book: cargo
	@rm -rf dist/book dist/reference
	@program=$$(scripts/program-to-run '$(CARGO)' '$(TARGET)' '$(BIN)') && "$$program" man --markdown dist/reference
	@$(CARGO) run --quiet -p xtask -- book dist/book --reference dist/reference

# What the program is built from: dist/sbom/sbom.cdx.json, and the licences' texts.
sbom: cargo
	@rm -rf dist/sbom && $(CARGO) run --quiet -p xtask -- sbom dist/sbom

# The program writes the book's reference, so it is built first.
papers: dist
	@$(MAKE) --no-print-directory book sbom

deb rpm tar: papers
	@packaging/$@/build $(BIN)/lacquer dist

release: committed papers
	@packaging/release $(BIN)/lacquer dist

# A release is built from a commit, so that anybody can build it again.
committed:
	@! git status --porcelain 2>/dev/null | grep . || { echo 'make release: these files are no part of the commit; commit or remove them' >&2; exit 1; }

image-root: dist
	@packaging/container/root $(BIN)/lacquer dist/image >/dev/null

# The full build if there is one of these sources, else a quick one.
run: cargo
ifneq ($(BACKEND)$(VCL),)
	@program=$$(scripts/program-to-run '$(CARGO)' '$(TARGET)' '$(BIN)') && \
	file='$(VCL)' && case $$file in '' | /*) ;; *) [ ! -e "$$file" ] || file=$$PWD/$$file ;; esac && \
	WATCH='$(WATCH)' exec scripts/run-cache "$${program%/*}/varnishd" '$(LISTEN)' -s '$(STORAGE)' $(if $(VCL),-f "$$file",-b '$(BACKEND)') $(OPTIONS)
else
	@program=$$(scripts/program-to-run '$(CARGO)' '$(TARGET)' '$(BIN)') && \
	exec "$$program" demo $(if $(filter-out file,$(origin LISTEN)),-a '$(LISTEN)') $(if $(filter-out file,$(origin WATCH)),--watch '$(WATCH)') -s '$(STORAGE)' $(OPTIONS)
endif

# Three nodes, an engine and an origin on loopback. It ends with what it has started, whoever ends it.
fleet: cargo
	@command -v python3 >/dev/null || { echo 'make fleet needs python3: apt install python3' >&2; exit 1; }
	@program=$$(scripts/program-to-run '$(CARGO)' '$(TARGET)' '$(BIN)') && exec scripts/run-fleet "$${program%/*}/varnishd" '$(ENGINE)'

test: cargo packages
	@CARGO='$(CARGO)' tests/run

quick: cargo
	@scripts/program-to-run --quick '$(CARGO)' '$(TARGET)' '$(BIN)'

# With `test`, clippy's own compiler builds what the tests run: no crate is compiled once for the lints and once more for the tests.
ifneq ($(and $(filter check,$(MAKECMDGOALS)),$(filter test,$(MAKECMDGOALS))),)
export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/scripts/lint-rustc
LINT = $(CARGO) build --workspace --all-targets --quiet
else
LINT = $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
endif

check: cargo
	@scripts/need-cargo '$(CARGO)' fmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) run --quiet -p xtask -- check
	$(LINT)

soak: cargo packages build
	@CARGO='$(CARGO)' tests/proofs/run
	@CARGO='$(CARGO)' tests/run --full

bench: packages dist
	@bench/run.py; status=$$?; bench/run.py --report; exit $$status
	$(CARGO) build --release -p lacquer-statsd --examples
	@bench/statsd/run

profile: cargo packages
	@CARGO='$(CARGO)' bench/train.py

clean:
	$(CARGO) clean
	rm -rf dist
