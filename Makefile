# Thin: each target is one verb of scripts/dev.sh, which makes its own .venv. ARGS are passed on: make test ARGS="-k units"
.DEFAULT_GOAL := help
.PHONY: help run test test-all test-browser lint bench bench-quick docs lock clean

help:      ## list these targets
	@awk -F ': *## ' '/^[a-z-]+: *## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile
run:       ## simulate experiments/experiment_config.yaml: five headlines (ARGS="--scenario NAME": one)
	@sh scripts/dev.sh run $(ARGS)
test:      ## the tests, but for the slow ones (ARGS="-m quick": a part, within 25 seconds)
	@sh scripts/dev.sh test $(ARGS)
test-all:  ## all tests
	@sh scripts/dev.sh test-all $(ARGS)
test-browser: ## tests of pages in Debian's chromium, where it is installed
	@sh scripts/dev.sh test-browser $(ARGS)
lint:      ## style, types and import direction
	@sh scripts/dev.sh lint
bench:     ## the benchmarks
	@sh scripts/dev.sh bench $(ARGS)
bench-quick: ## the levels of detail beside each other, within a minute
	@sh scripts/dev.sh bench-quick $(ARGS)
docs:      ## the documentation as a site, in build/site
	@sh scripts/dev.sh docs $(ARGS)
lock:      ## write requirements*.lock anew (needs uv)
	@sh scripts/lock.sh
clean:     ## remove caches and build results
	@sh scripts/dev.sh clean
