# Everything a person or CI does with this repository is a target here: `make help` lists them.
SHELL        := /bin/sh
STAGES       := $(notdir $(patsubst %/main.go,%,$(wildcard workers/*/main.go)))
GOLANGCI     := build/tools/golangci-lint
GOLANGCI_VER := v2.15.0
SCRIPT       ?= demo/sample.txt

.PHONY: test-containers images up-containers down-containers help setup build demo demo-baseline test recovery fuzz lint bench verify clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the tools the stages run (apt; asks dpkg first)
	@./scripts/setup.sh

build: ## build bin/fleet and bin/workers/NAME
	@mkdir -p bin/workers
	go build -o bin/fleet ./cmd/fleet
	go build -o bin/workers/ $(addprefix ./workers/,$(STAGES))

demo: setup build ## a recording becomes captioned clips, measured (SCRIPT=file for your own words)
	go run ./demo -script $(SCRIPT)

demo-baseline: setup ## the bare tools by hand on the same recording, for comparison
	go run ./demo -script $(SCRIPT) -baseline

test: build ## all tests: race detector, shuffled (installs what they need; PKG=./workers/NAME/... tests packages alone)
	@./scripts/setup.sh test
	./scripts/test.sh $(PKG)

recovery: ## 500 random kills and freezes over both stores; plans of the hot statements at a million jobs
	@./scripts/setup.sh test
	go test -count=1 -v -timeout 60m -run 'TestRandomKills|TestNoHotStatement' ./pkg/job -recovery.kills=500 -plans.jobs=1000000

fuzz: ## every decoder of outside bytes is fed with made-up ones, a minute each (TIME=10m PACKAGE=./pkg/sheet)
	./scripts/fuzz.sh

lint: $(GOLANGCI) ## golangci-lint, with the package arrows
	go vet ./...
	$(GOLANGCI) run ./...

$(GOLANGCI):
	@mkdir -p build/tools
	GOBIN=$(CURDIR)/build/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VER)

bench: ## measured comparisons, tables and files in build/bench (BENCH="sqsserver consumers store")
	./scripts/bench.sh

verify: ## what is generated or tidied is what is committed
	./scripts/verify.sh

test-containers: ## the fleet in containers: builds the images and tests them (installs and starts Docker where none answers)
	./scripts/containers.sh

images: ## build the container images: fleet, postgres and one for each stage
	./docker/images.sh

up-containers: build images ## run the whole fleet in containers; the API answers on 127.0.0.1:8080 to a key that it leaves
	@./docker/up.sh

down-containers: ## stop the containers of up-containers; their volumes stay
	@./docker/up.sh down

clean: ## remove what was built
	rm -rf bin build
