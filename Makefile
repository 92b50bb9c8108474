# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the product's programs into bin/
	@hack/build.sh

.PHONY: images
images: ## Build images of scheduler and executor as OCI archives into .run/images/, without an engine
	@hack/images.sh

.PHONY: reproduce
reproduce: ## Build the last commit's images twice, each from nothing, and compare them (about ten minutes)
	@hack/images.sh reproduce

.PHONY: tools
tools: ## Build a Kubernetes control plane for tests and demo into .tools/ (about ten minutes the first time)
	@hack/control-plane.sh

.PHONY: demo
demo: build tools ## Show the main job from nothing to nothing on real parts, with a simulated Mesos cluster
	@go run ./hack/demo

.PHONY: up
up: build tools ## Start the demo's cluster and leave it running, with a kubeconfig for kubectl
	@go run ./hack/demo up

.PHONY: down
down: ## End what `make up` started
	@go run ./hack/demo down

.PHONY: test
test: build tools ## Run all tests: unit tests with the race detector, then the end-to-end suite
	@go run ./hack/test

.PHONY: page
page: ## Test the web page in a real Chromium against what `make up` has started
	@hack/page.sh

.PHONY: verify
verify: ## Check formatting, lint, imports, go.mod, generated code
	@hack/verify.sh

.PHONY: bench
bench: build tools ## Measure and print speed and size, as ratios in one run
	@hack/bench.sh

.PHONY: bench-scale
bench-scale: ## Measure how cost grows from 1,000 agents and 10,000 tasks to ten times that
	@hack/bench.sh scale

.PHONY: chaos
chaos: build tools ## Prove the invariants under faults: RUNS=3 runs, PARALLEL=4 at a time, of the seeds from SEED=1 on (SEED=fresh draws one; HOLLOW=1: on real kubelet code)
	@RUNS=$(RUNS) SEED=$(SEED) PARALLEL=$(PARALLEL) HOLLOW=$(HOLLOW) hack/chaos.sh

.PHONY: conformance
conformance: ## Compare the Mesos simulator with recordings of a real master and agent
	@hack/conformance.sh

.PHONY: fuzz
fuzz: ## Fuzz what reads the network, with FUZZ_EXECS (50000) inputs a target
	@hack/fuzz.sh

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in the shipped programs (needs https://vuln.go.dev, or a mirror in GOVULNDB)
	@hack/vulncheck.sh

.PHONY: clean
clean: down ## Remove what was built and run; .tools/ stays
	@rm -rf bin .run
