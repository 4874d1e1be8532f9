# The set-up commands, for a bare Debian 12 and newer; everything they do is plain CMake (CMakePresets.json).
#
#   make demo     from nothing to a trained model
#   make test     builds and runs every test; asan, tsan: the same under sanitizers
#   make install  PREFIX=/usr/local

PREFIX ?= /usr/local
JOBS ?= 2

.PHONY: build demo test asan tsan install

build:
	@.ci/packages
	cmake --preset default
	cmake --build --preset default --parallel $(JOBS) --target runner_bin runner_points

demo: build
	build/bin/runner exec recipes/digits.yaml
	build/bin/runner ls

test: PRESET = default
asan: PRESET = asan
tsan: PRESET = tsan
test asan tsan:
	@.ci/packages
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS)
	@tests/run.sh $(if $(filter default,$(PRESET)),build,build-$(PRESET))

install: build
	cmake --install build --prefix $(PREFIX)
