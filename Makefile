# The two commands: `make demo` and `make test`. Everything they need is set up by them, in .venv and build/.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# A test that fails on a crowded machine gets a second chance, and the summary says so (R).
PYTEST := $(PY) -m pytest -q -p no:cacheprovider -n 4 --dist loadfile --no-loadscope-reorder --reruns 2 -rR
# Put in front of what may wait for the tests.
NICE ?=
DEBUG_LIB := build/debug/lib
ASAN_LIB := build/asan/lib

# Bytecode is kept, whatever the environment says: tests start Python some hundred times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help chaos soak sdk-suite bench-peers bench-pythons guard-record system build demo test test-wide bytecode conformance test-c test-release test-debug test-dist test-pythons lint bench debug asan peers clean dist bench-embed

help:
	@echo "make demo    set up, host the demo tool server over HTTP, call it, print a throughput line"
	@echo "make test    set up and run all tests: C under sanitizers, release and debug builds, both event loops, peers"
	@echo "make test-wide   servers and clients of every SDK on every transport, each beside the SDK's own (after make test)"
	@echo "make conformance   the official conformance suite against the server and the client, on every wire: totals"
	@echo "make sdk-suite SDK=<checkout>   the official Python SDK's own tests, with our dispatcher and transports in them"
	@echo "make chaos   kills workers and Redis under load, and counts what callers saw; TRIALS='rolling redis' for some of it"
	@echo "make soak    mixed load with clients that vanish, for an hour or SECONDS=180: does everything come back"
	@echo "make bench   benchmarks, short: ratios against raw loops and other SDKs"
	@echo "make bench-peers   every mark and every peer, interleaved, within 15 minutes; then benchmarks/render.py"
	@echo "make bench-embed   servers of other SDKs under their own hosts and under headrace, within 10 minutes"
	@echo "make guard-record   write down the instructions and allocations of a message, which a test guards"
	@echo "make build   build in place (release)"
	@echo "make debug   build with asserts and live-object counters into $(DEBUG_LIB)"
	@echo "make asan    build with sanitizers into $(ASAN_LIB) and run the wire and mux tests on it"
	@echo "make test-dist, make test-pythons   sdist to wheel to tests, on this Python or on every one installed"
	@echo "make lint    ruff, mypy, stubtest"
	@echo "make dist    sdist and wheel into dist/"

# What pyproject.toml asks for, without building the project itself: that is `build`.
REQUIREMENTS = $(PY) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
	print(*[r for e in '$(1)'.split() for r in (p['project']['dependencies'] if e == 'base' else \
	p['project']['optional-dependencies'][e])], *p['build-system']['requires'], sep='\n')"

$(VENV)/.ready: pyproject.toml
	@echo "setting up $(VENV)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q -U pip
	@$(call REQUIREMENTS,base cli schema) > $(VENV)/requirements.txt && $(PY) -m pip install -q -r $(VENV)/requirements.txt
	@$(PY) -c "import sysconfig, pathlib; pathlib.Path(sysconfig.get_path('purelib'), 'headrace.pth').write_text('$(CURDIR)/src\n')"
	@printf '#!/bin/sh\nexec "%s" -m headrace "$$@"\n' "$(abspath $(PY))" > $(BIN)/headrace && chmod +x $(BIN)/headrace
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	@echo "installing what the tests need"
	@$(call REQUIREMENTS,test mcp fastmcp) > $(VENV)/requirements-test.txt && $(PY) -m pip install -q -r $(VENV)/requirements-test.txt
	@touch $@

build: $(VENV)/.ready
	@test -n "$$(find src/headrace/mux -name '*.so' 2>/dev/null)" || echo "compiling (one to three minutes, once)"
	@$(PY) setup.py -q build_ext --inplace --parallel 2

demo: build
	@$(PY) examples/run_demo.py

debug: $(VENV)/.ready
	@echo "compiling the debug build into $(DEBUG_LIB)"
	@HEADRACE_BUILD=debug $(NICE) $(PY) setup.py -q build_py --build-lib $(DEBUG_LIB) build_ext --build-lib $(DEBUG_LIB) --build-temp build/debug/tmp --parallel 2

asan: $(VENV)/.ready-test
	@HEADRACE_BUILD=asan $(PY) setup.py -q build_py --build-lib $(ASAN_LIB) build_ext --build-lib $(ASAN_LIB) --build-temp build/asan/tmp --parallel 2
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		PYTHONPATH=$(ASAN_LIB) $(PYTEST) --timeout 300 tests/unit/test_lines.py tests/unit/test_envelope.py tests/unit/test_http1.py tests/unit/test_sse.py tests/property tests/unit/test_mux.py

# What the network has to give and what the compiler has to do go side by side. Then the tests; what they leave of the
# machine while they wait for something goes to the linters and the debug build, whose tests come last.
test:
	@$(MAKE) --no-print-directory -j5 system test-c build peers bytecode
	@$(MAKE) --no-print-directory -j4 test-release lint debug soak NICE="nice -n 15" SECONDS=180 CALLERS=2
	@$(MAKE) --no-print-directory test-debug

# Compiles the tests and what they import once, not in every worker at the same time; errors are for the test run to tell.
bytecode: build $(VENV)/.ready-test
	@$(PY) -m pytest -q -p no:cacheprovider --collect-only tests >/dev/null 2>&1 || true

test-c:
	@$(MAKE) --no-print-directory -C tests/csrc test

# Debian packages that tests run: counted instructions, a browser, a store that servers share, proxies in front. Without root those tests are skipped, a line each.
system:
	@tools/system_packages.sh valgrind chromium redis-server nginx haproxy

lint: build $(VENV)/.ready-test
	$(NICE) $(BIN)/ruff check -q .
	$(NICE) $(BIN)/mypy
	MYPYPATH=src $(NICE) $(PY) -m mypy.stubtest --concise --ignore-disjoint-bases --allowlist tools/stubtest_allow.txt --ignore-unused-allowlist \
		$$(cd src && find headrace -name '*.pyx' | sed 's/\.pyx//; s#/#.#g')

test-release: build $(VENV)/.ready-test peers
	$(PYTEST) tests

# The files that tests/conftest.py names in WIDE.
WIDE := $(addprefix tests/interop/test_,fastmcp_hosting.py fastmcp_hosting_faults.py sdk1_hosting.py sdk_client.py \
	sdk_client_trials.py sdk_hosting_conformance.py sdk_hosting_settings.py asgi_hosts.py asgi_applications.py)
test-wide: build $(VENV)/.ready-test peers
	$(PYTEST) $(WIDE)

# The debug build asserts and counts live objects: the parts with state run on it once more.
STATEFUL := $(addprefix tests/unit/test_,mux*.py capture.py middleware.py batch.py http_batch.py short_sessions.py link.py tool.py server.py http_server.py http_server_streams.py http_client.py) \
	tests/leak
test-debug: debug $(VENV)/.ready-test
	PYTHONPATH=$(DEBUG_LIB) HEADRACE_DEBUG=1 $(PYTEST) $(wildcard $(STATEFUL))

conformance: build $(VENV)/.ready-test peers
	@PYTHONPATH=tests $(PY) -m interop.conformance.run

# The tests of a checkout of the official Python SDK, on headrace's dispatcher and transports: counts per leg.
ifeq ($(SDK),)
sdk-suite:
	@$(PYTHON) tests/interop/sdk_suite/run.py
else
sdk-suite: build
	@$(MAKE) --no-print-directory -C tests/interop sdk-suite PYTHON=$(abspath $(PY))
	@$(PY) tests/interop/sdk_suite/run.py $(SDK) --python .tools/sdk-suite/bin/python $(SUITE_OPTIONS)
endif

test-dist: $(VENV)/.ready
	@tools/try_dist.sh $(PY) only

test-pythons: $(VENV)/.ready
	@tools/try_dist.sh $(PY)

peers: $(VENV)/.ready
	@$(MAKE) --no-print-directory -C tests/interop install PYTHON=$(abspath $(PY))

# Workers and Redis are killed under load; what callers saw, in counts.
chaos: build $(VENV)/.ready-test
	@PYTHONPATH=tests $(PY) -m chaos $(TRIALS)

# What a server holds must come back to where it was. In `make test` for three minutes, beside the others.
SECONDS ?= 3600
soak: build $(VENV)/.ready-test
	@PYTHONPATH=tests $(PY) -m soak $(SECONDS) $(CALLERS)

bench: build $(VENV)/.ready-test peers
	@$(PY) -m pytest -q -n0 -p no:cacheprovider benchmarks/micro_codec.py --benchmark-max-time=0.3 --benchmark-min-rounds=3 \
		--benchmark-columns=min,median,ops --benchmark-sort=name
	@$(PY) benchmarks/micro_inflight_memory.py
	@$(PY) benchmarks/callgrind_calls.py
	@$(PY) benchmarks/run.py

# Writes down what one message costs here, in instructions and allocations; a test holds later changes against it.
guard-record: build
	@$(PY) benchmarks/callgrind_calls.py --record

# Everything that is compared, in .tools/; headrace for the other Pythons, in build/pyNNN. Before the clock starts.
bench-pythons: build
	@nice benchmarks/build_pythons.sh $(PY)

bench-peers: build $(VENV)/.ready-test peers bench-pythons
	@$(MAKE) --no-print-directory -C benchmarks/peers install PYTHON=$(abspath $(PY))
	@$(PY) benchmarks/run.py --peers --json benchmarks/results/peers.json $(BENCH_OPTIONS)

# The same server objects of the official SDK and of FastMCP under their hosts and under ours.
bench-embed: build $(VENV)/.ready-test peers
	@$(PY) benchmarks/run.py --embed --json benchmarks/results/embed.json $(BENCH_OPTIONS)

dist: $(VENV)/.ready
	@$(PY) -m pip install -q build
	@$(PY) -m build -q

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src \( -name '*.so' -o -name '*.c' \) -delete
