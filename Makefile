# SPDX-License-Identifier: Apache-2.0
# The front door: every target works alone in a fresh clone and says what it does. The build itself
# is CMake's (CMakePresets.json); the packages are in tools/packages.txt.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
VERSION := $(shell awk '/^project.tephra/ { print $$3 }' CMakeLists.txt)
SOURCES = $(shell find tephra tests fuzz -name '*.h' -o -name '*.cpp' -o -name '*.cu')

# Rooms whose kernels an emulated GPU runs.
EMULATED_ROOMS = device core ops optim infer

# What each sanitizer build runs. AddressSanitizer gets all that is not slow. ThreadSanitizer costs a factor of ten, so it gets the tests that
# use several threads: those of the rooms with shared state, every op on 1 to 16 threads, and the
# engine asked by several threads at once.
TSAN_ROOMS = base device core serve
TSAN_OPS = *AnyNumberOfThreads*
TSAN_INFER = Engine.*:*AnyNumberOfThreads*:RsaTest.GivesOneSeed*:RsaTest.StopsWhen*

.DEFAULT_GOAL := help
.PHONY: help setup build test quickstart bench check check-format check-layers check-lint \
  check-debug check-tsan check-gpu check-emulated check-aarch64 check-fuzz check-page fuzz build-fuzz format install \
  dist dist-source

help:  ## this list
	@echo "tephra $(VERSION). Times are for two cores and a cold compiler cache."
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup:  ## install the Debian packages that are missing (a few minutes; nothing to do: at once)
	@tools/setup.sh all

build:  ## build build/release/tephra (minutes; again: seconds)
	@tools/setup.sh build
	@echo "build: the release preset, on $(JOBS) cores; some minutes the first time"
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target tephra

test: build  ## build the tests as well, then run every CPU test (some minutes)
	@cmake --build --preset release -j $(JOBS)
	@echo "test: every CPU test, a minute or two"
	@ctest --test-dir build/release -LE gpu -j $(JOBS) --output-on-failure --no-tests=error

quickstart: build  ## build, train a small ZAYA1 on built-in tasks, evaluate it, let it answer (5 minutes)
	@tools/quickstart.sh build/release/tephra build/quickstart

bench: build  ## build, then time every op beside the ceilings of this machine (some minutes)
	@echo "bench: every op and the ceilings measured in the same run; leave the machine alone"
	@build/release/tephra bench ops

check: check-format check-layers check-gpu check-emulated check-aarch64 check-page check-lint check-fuzz check-debug check-tsan  ## format, lint, layers, sanitizers (most of an hour cold)
	@echo "check: all passed"

check-format:
	@tools/setup.sh check
	@echo "check: format of $(words $(SOURCES)) files"
	@clang-format --dry-run -Werror $(SOURCES)

check-layers:
	@echo "check: who includes whom"
	@python3 tools/check_layers.py --self-test
	@python3 tools/check_layers.py

check-gpu:
	@tools/setup.sh build && tools/setup.sh check
	@echo "check: the GPU kernels for CUDA (where nvcc is) and for AMD gfx942, compiled and linked"
	@$(MAKE) --no-print-directory build
	@cmake --preset hip > /dev/null
	@cmake --build --preset hip -j $(JOBS)

check-emulated:
	@tools/setup.sh build && tools/setup.sh check
	@echo "check: the GPU kernels as AMD gets them, run by this CPU, about 6 minutes"
	@cmake --preset emulated > /dev/null
	@cmake --build --preset emulated -j $(JOBS) --target tephra emulated_hipblaslt $(EMULATED_ROOMS:%=%_test)
	@ctest --test-dir build/emulated -L emulated -j $(JOBS) --output-on-failure --no-tests=error

check-aarch64:
	@tools/setup.sh build && tools/setup.sh check
	@echo "check: all vector kernels compile for aarch64"
	@tools/check_aarch64.sh

check-page:
	@tools/setup.sh build && tools/setup.sh check
	@echo "check: the chat page in headless Chromium, half a minute"
	@$(MAKE) --no-print-directory build
	@ctest --test-dir build/release -R '^chat_page$$' --output-on-failure --no-tests=error

check-lint:
	@tools/setup.sh build && tools/setup.sh check
	@cmake --preset release > /dev/null
	@python3 tools/lint.py --jobs $(JOBS)

check-debug:
	@tools/setup.sh build
	@echo "check: AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, about 15 minutes cold"
	@cmake --preset debug > /dev/null
	@cmake --build --preset debug -j $(JOBS)
	@ctest --test-dir build/debug -LE 'gpu|slow' -j $(JOBS) --output-on-failure --no-tests=error

check-tsan:
	@tools/setup.sh build
	@echo "check: ThreadSanitizer, about 12 minutes cold"
	@cmake --preset tsan > /dev/null
	@cmake --build --preset tsan -j $(JOBS) --target $(TSAN_ROOMS:%=%_test) ops_test infer_test
	@ctest --test-dir build/tsan -R '^($(subst $() ,|,$(TSAN_ROOMS)))$$' -j $(JOBS) --output-on-failure --no-tests=error
	@build/tsan/tests/ops_test --gtest_brief=1 --gtest_filter='$(TSAN_OPS)'
	@build/tsan/tests/infer_test --gtest_brief=1 --gtest_filter='$(TSAN_INFER)'

fuzz: build-fuzz  ## run every fuzz target for SECONDS (60) from the kept inputs
	@tools/fuzz.sh $(or $(SECONDS),60)

build-fuzz:
	@tools/setup.sh build && tools/setup.sh check
	@echo "fuzz: the libFuzzer targets, about a minute to build cold"
	@cmake --preset fuzz > /dev/null
	@cmake --build --preset fuzz -j $(JOBS)

check-fuzz: build-fuzz
	@tools/fuzz.sh 8

format:  ## rewrite the sources as clang-format wants them
	@tools/setup.sh check
	@clang-format -i $(SOURCES)

install: build  ## copy the binary to PREFIX/bin (PREFIX=/usr/local)
	@cmake --install build/release --prefix $(PREFIX)

dist:  ## write build/tephra-VERSION-MACHINE.tar.gz: the program with its libraries, for other machines
	@tools/setup.sh build
	@cmake --preset release > /dev/null
	@cmake --build --preset release -j $(JOBS) --target tephra
	@python3 tools/dist.py build/release $(VERSION) build/tephra-$(VERSION)-$(shell uname -m).tar.gz
	@tools/dist_test.sh build/tephra-$(VERSION)-$(shell uname -m).tar.gz

dist-source:  ## write build/tephra-VERSION.tar.gz, the sources of the last commit
	@mkdir -p build
	@git archive --prefix=tephra-$(VERSION)/ -o build/tephra-$(VERSION).tar.gz HEAD
	@echo "dist: build/tephra-$(VERSION).tar.gz"
