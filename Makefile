# What a person types. Each target does all that is needed before it, installs missing packages (and says so), and
# asks nothing. The real build is CMake's: CMakePresets.json.

ft := build/release/ft
PREFIX ?= /usr/local

.PHONY: build install test quick dev gpu-test gpu-kit demo demo-rl docs dist accept check format tidy clean help

build: configure                    ## the program: build/release/ft
	@ninja -C build/release ft
	@echo 'built    $(ft)          next: make demo, make install, $(ft) --help'

install: build                      ## the program into PREFIX/bin (/usr/local; PREFIX=~/.local needs no root)
	@ninja -C build/release --quiet ft_share
	@for part in ft local; do \
	  cmake --install build/release --prefix $(PREFIX) --component $$part >build/release/install.log || exit 1; done
	@echo 'installed $(PREFIX)/bin/ft, its manual page, completions for shells and $(PREFIX)/share/ft'

# Many tests wait for other processes and for clocks: twice as many at a time as there are cores.
test: configure                     ## build and run all tests
	@ninja -C build/release
	@ctest --test-dir build/release --output-on-failure --no-tests=error -j $$((2 * $$(nproc))) --progress

quick: configure                    ## the tests that wait for nothing, in less than a minute once built
	@.ci/quick

dev:                                ## after an edit: build/dev/ft, and the tests of what has changed
	@.ci/packages
	@.ci/dev

gpu-test: configure                 ## on a machine with an NVIDIA GPU: the CUDA backend's tests, on it
	@ninja -C build/release gpu_test gpu_golden_test
	@build/release/tests/engine/cuda/gpu_test --gtest_brief=1
	@build/release/tests/models/gpu_golden_test --gtest_brief=1

demo: build                         ## a small model learns a task in a minute
	@configs/demo/run $(ft)

demo-rl: build                      ## the small model gets better by reward alone, in minutes
	@configs/preference/run $(ft)

# MODELS: a folder with the models that the pages name; a page whose model is not there is skipped. An hour on two cores.
docs: build                         ## the outputs and pictures in docs/ again; CHECK=1: only compare; MODELS=DIR
	@.ci/docs $(ft) $(if $(CHECK),--check) $(if $(MODELS),--models $(MODELS)) $(PAGES)
	@docs/pictures/make.py $(ft) $(if $(CHECK),--check)

dist: build                         ## build/dist: an archive for other machines, a Debian package, a wheel
	@.ci/packages --dist
	@ninja -C build/release --quiet ft_share
	@.ci/dist

gpu-kit: dist                       ## build/dist/gpu-kit: what python3 bench/gpu needs on a machine with a GPU
	@ninja -C build/release gpu_test gpu_golden_test bench_gpu bench_gpu_products
	@mkdir -p build/dist/gpu-kit
	@for program in tests/engine/cuda/gpu_test tests/models/gpu_golden_test bench/bench_gpu bench/bench_gpu_products; do \
	  strip -o build/dist/gpu-kit/$$(basename $$program) build/release/$$program; done
	@echo 'packed   build/dist/gpu-kit    there: python3 bench/gpu --part 1, then 2 and 3'

accept: build                       ## the finished cases of ../shared/accept, where they are
	@.ci/accept $(ft)

check:                              ## format, include directions, sizes, a build without warnings
	@.ci/packages --check
	@.ci/check

format:                             ## clang-format over all sources
	@.ci/packages --check
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

tidy: configure                     ## clang-tidy over all sources; slow
	@.ci/tidy

clean:                              ## remove build/
	@rm -rf build

help:                               ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

.PHONY: configure
configure:
	@.ci/packages
	@[ -f build/release/build.ninja ] || cmake --preset release -DFT_UNITY=ON
