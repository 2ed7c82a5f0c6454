# The short way in. CMake does the work (CMakeLists.txt, CMakePresets.json), each preset in a folder
# of its own: release in build, another P in build-P. Each target first sees that what it needs is
# installed, which costs nothing when it is (tools/deps).
#
#   make                 build/mlxcel, build/mlxcel-server, build/libmlxcel.a
#   make demo            builds, fetches a small model, asks it something
#   make test            builds and runs the tests; PRESET=asan or tsan runs them under that,
#                        PRESET=arm64 those of the kernels for 64-bit Arm under qemu,
#                        PRESET=emulate those of CUDA's kernels, run on the processor
#   make check           format, layers, names, clang-tidy, cppcheck
#   make fuzz            every fuzz target for FUZZ_SECONDS
#   make install         into DESTDIR and PREFIX
#   make dist            dist/mlxcel, a folder with the programs and their libraries to carry to
#                        another machine; make dist-cuda: dist/mlxcel-cuda, with the CUDA backend
#   make deps            installs what building, testing, checking and fuzzing need, and, where it
#                        can be had, what tests for 64-bit Arm need
#   make clean           removes the build folders

PRESET ?= release
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CTEST_FLAGS ?=

build = build$(patsubst -release,,-$(PRESET))

# The tests that are for a preset, where not all are: their label, and the target that builds them.
tests-tsan = threaded
tests-arm64 = kernels
tests-emulate = emulated
tests = $(tests-$(PRESET))

# A folder keeps the generator that it was first configured with.
define compile
@tools/deps $(3)
$(if $(filter emulate,$(2)),@tools/deps emulate)
$(if $(filter arm64,$(2)),@tools/deps arm64 && tools/sysroot $(1)/sysroot)
@test -f $(1)/build.ninja || test -f $(1)/Makefile || { rm -rf $(1)/CMakeCache.txt; set -x; \
  cmake --preset $(2) $$(command -v ninja >/dev/null && echo -G Ninja); }
cmake --build $(1) -j $(JOBS) $(4)
endef

.PHONY: all demo test check fuzz install dist dist-cuda deps clean
all:
	$(call compile,$(build),$(PRESET),build,--target programs)

demo:
	$(call compile,build,release,demo,--target programs)
	tools/demo

# ctest's summary is the last thing printed.
test:
	$(call compile,$(build),$(PRESET),build,$(tests:%=--target %))
	$(if $(filter tsan,$(PRESET)),tools/no-aslr) ctest --test-dir $(build) --output-on-failure \
	  --no-tests=error --no-label-summary $(tests:%=-L %) -j $(JOBS) $(CTEST_FLAGS)

check:
	$(call compile,build,release,check)
	tools/check build $(JOBS)

fuzz:
	$(call compile,build-fuzz,fuzz,fuzz)
	tools/fuzz build-fuzz $(FUZZ_SECONDS)

install: all
	DESTDIR=$(DESTDIR) cmake --install $(build) --prefix $(PREFIX)

dist: all
	tools/dist $(build) dist/mlxcel

dist-cuda:
	$(call compile,build-cuda,cuda,build)
	tools/dist build-cuda dist/mlxcel-cuda

deps:
	tools/deps all
	-tools/deps arm64

clean:
	rm -rf build build-*/ dist
