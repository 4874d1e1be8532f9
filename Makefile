# Set-up commands for a bare Debian 12 or newer. They only call CMake (CMakePresets.json) and the package manager.
#
#   make demo     builds the program and trains a model
#   make test     builds and runs every test; asan, tsan: under sanitizers
#   make install  PREFIX=/usr/local
#
# PRESET=ci makes warnings errors.

PREFIX ?= /usr/local
JOBS ?= 2
PRESET ?= default

.PHONY: build demo test asan tsan install

build:
	@.ci/packages
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS) --target runner_bin

demo: build
	build/bin/runner exec recipes/digits.yaml
	build/bin/runner ls

asan: PRESET = asan
tsan: PRESET = tsan
test asan tsan:
	@.ci/packages
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS)
	@tests/run.sh $(if $(filter asan tsan,$(PRESET)),build-$(PRESET),build)

install: build
	cmake --install build --prefix $(PREFIX)
