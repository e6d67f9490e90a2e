# make            build/incipit                    make serve      install what is missing, build, serve a model
# make test       everything CI runs               make test-long  the same and the long tests
# make unit ONLY=model/text    the test programs whose path holds this text
# make e2e ONLY=http           the same of the scripts that talk to the real server; SAN= as for test
# make SAN=address|undefined|thread test           the same under a sanitizer
# make CPU=scalar|avx2|avx512 test                 the same with these instructions (kernel tests run all of them anyway)
# make tidy       format, includes, names, tables  make format     lay the sources out
# make bench      throughput of the default model  make setup      only the installing part of serve
# make clean      remove what was built             make help       show this
# make fuzz       the fuzz targets           make fuzz TARGET=json MINUTES=10   one of them, that much CPU time
# make bench-kernels   GOP/s and GB/s of the operations, beside what the machine can do
#
# Object files stand in $(BUILD)/<variant>/: release, checked (tests: invariants on) or the sanitizer's name.

BUILD ?= build
MODEL ?= smollm2
ONLY ?=
ARGS ?=
SAN ?=
CHECKED ?=
CPU ?=
FUZZER ?=
TARGET ?=
MINUTES ?= 1

ifneq ($(filter-out address undefined thread,$(SAN)),)
$(error SAN is "$(SAN)"; it must be address, undefined or thread)
endif

VARIANT := $(or $(if $(FUZZER),fuzz),$(SAN),$(if $(CHECKED),checked,release))
OUT := $(BUILD)/$(VARIANT)
BINARY := $(if $(filter release,$(VARIANT)),$(BUILD)/incipit,$(OUT)/incipit)

ifeq ($(MAKELEVEL)$(filter -j% --jobserver%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:

# ---- compiler ----

ifeq ($(origin CC),default)
CC := gcc
endif
ifneq ($(FUZZER),)
CC := clang-14
endif
PACKAGES := libmicrohttpd libcjson libxxhash libpcre2-8 libutf8proc yaml-0.1 libedit gnutls
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lpthread -lm
TEST_LIBS := $(shell pkg-config --libs check 2>/dev/null)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wwrite-strings -Wvla -Werror
SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
ifeq ($(SAN),undefined)
SANITIZE += -fno-sanitize-recover=all
endif
ifneq ($(FUZZER),)
SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
BASE_CFLAGS := -std=c17 -D_POSIX_C_SOURCE=200809L -D_GNU_SOURCE $(if $(SAN)$(FUZZER),-O1,-O3) -g -fPIE $(WARNINGS) -ffp-contract=off \
	$(SANITIZE) $(if $(filter-out release,$(VARIANT)),-DCHECKED=1) -I. $(PACKAGE_CFLAGS) $(CFLAGS)
BASE_LDFLAGS := -pie $(SANITIZE) -Wl,--as-needed $(LDFLAGS)

# Wide registers exist in variant files only; which of them runs is chosen at run time.
X86 := $(filter x86_64% amd64%,$(shell $(CC) -dumpmachine 2>/dev/null))
AVX2_CFLAGS := -mavx2 -mfma -mf16c
AVX512_CFLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c -mprefer-vector-width=512
variant_cflags = $(if $(filter %_avx2.c,$1),$(AVX2_CFLAGS))$(if $(filter %_avx512.c,$1),$(AVX512_CFLAGS))

# ---- floors: one library each, so that a test links only what its floor may see ----

# Variant files of another architecture, and the device backends, are not for this compiler.
find_sources = $(sort $(shell find $1 -name '*.c' 2>/dev/null))
left_out := server/main.c kernels/base/% kernels/cuda/% $(if $(X86),,%_avx2.c %_avx512.c)
sources = $(filter-out $(left_out),$(call find_sources,$1))
objects = $(patsubst %.c,$(OUT)/%.o,$1)

FLOORS := base kernels model cache api server
base_SOURCES := $(call find_sources,kernels/base)
kernels_SOURCES := $(call sources,kernels)
model_SOURCES := $(call sources,model)
cache_SOURCES := $(call sources,cache)
api_SOURCES := $(call sources,api)
server_SOURCES := $(call sources,server)
library = $(patsubst %,$(OUT)/lib%.a,$1)

# What the tests of several floors share; a program takes what it uses. Those of the ground floor see nothing of it.
SUPPORT_SOURCES := $(filter-out tests/support/fault.c,$(call find_sources,tests/support))
# A library that is preloaded into the server: it makes chosen calls fail.
FAULTS := $(OUT)/fault.so

kernels_SEES := kernels base
model_SEES := model kernels base
cache_SEES := cache kernels base
api_SEES := api model kernels base
server_SEES := server api model cache kernels base

# ---- test programs ----

TEST_SOURCES := $(sort $(shell find tests/unit tests/kernels tests/conformance -name '*_test.c' 2>/dev/null))
TESTS := $(patsubst %.c,$(OUT)/%,$(TEST_SOURCES))
SELECTED := $(foreach test,$(TESTS),$(if $(findstring $(ONLY),$(test)),$(test)))

# What a test may see, by its path.
sees = $(call library,$(or \
	$(if $(filter tests/unit/kernels/base/%,$1),base), \
	$(if $(filter tests/unit/kernels/%,$1),$(kernels_SEES)), \
	$(if $(filter tests/unit/model/% tests/kernels/%,$1),$(model_SEES)), \
	$(if $(filter tests/unit/cache/%,$1),$(cache_SEES)), \
	$(if $(filter tests/unit/api/%,$1),$(api_SEES)), \
	$(server_SEES)))
# Sources beside a test that are not programs themselves belong to each program there.
beside = $(filter-out %_test.c tests/unit/main.c,$(wildcard $(dir $1)*.c))

# ---- fuzz targets: here with replay.c, which runs the corpus again; with FUZZER=1 clang's libFuzzer looks for more ----

FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/*_fuzz.c))
FUZZ_TARGETS := $(patsubst %.c,$(OUT)/%,$(FUZZ_SOURCES))
FUZZ_SHARED := $(filter-out %_fuzz.c %/replay.c,$(wildcard tests/fuzz/*.c))
http_raw_FUZZ := tests/unit/server/net/fake_engine.c

# ---- what to build ----

.PHONY: all tests unit e2e test test-long fuzz fuzz-targets serve setup bench bench-kernels format tidy clean help
all: $(BINARY)
tests: $(TESTS) $(FAULTS) $(FUZZ_TARGETS)
fuzz-targets: $(FUZZ_TARGETS)

$(BINARY): $(OUT)/server/main.o $(call library,$(server_SEES))
	@echo "LD  $@"
	@$(CC) $(BASE_CFLAGS) $(BASE_LDFLAGS) $^ $(LIBS) -o $@

$(FAULTS): tests/support/fault.c $(OUT)/flags
	@mkdir -p $(@D)
	@echo "LD  $@"
	@$(CC) -std=c17 -D_GNU_SOURCE -O2 -g -fPIC -shared $(filter-out -Wpedantic,$(WARNINGS)) -Wno-missing-prototypes $< -o $@

$(BUILD)/kernels_bench: $(OUT)/tests/bench/kernels_bench.o $(call library,$(kernels_SEES))
	@echo "LD  $@"
	@$(CC) $(BASE_CFLAGS) $(BASE_LDFLAGS) $^ $(LIBS) -o $@

# The command line is part of what an object depends on: another compiler or other flags rebuild it.
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(BASE_CFLAGS) $(BASE_LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(BASE_CFLAGS) $(BASE_LDFLAGS) $(LIBS)' > $@
.PHONY: FORCE

$(OUT)/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	@echo "CC  $<"
	@$(CC) $(BASE_CFLAGS) $(call variant_cflags,$<) -include kernels/base/banned.h -MMD -MP -c $< -o $@

# The list of members is a file too, so that a deleted source leaves its library.
define floor
$(OUT)/lib$1.a: $$(call objects,$$($1_SOURCES)) $(OUT)/$1.members
	@rm -f $$@
	@$$(AR) qcsD $$@ $$(filter %.o,$$^)
$(OUT)/$1.members: FORCE
	@mkdir -p $$(@D)
	@echo '$$($1_SOURCES)' | cmp -s - $$@ || echo '$$($1_SOURCES)' > $$@
endef
$(foreach name,$(FLOORS) SUPPORT,$(eval $(call floor,$(name))))

define test_program
$(patsubst %.c,$(OUT)/%,$1): $(call objects,$1 $(call beside,$1) tests/unit/main.c) \
		$(if $(filter tests/unit/kernels/%,$1),,$(OUT)/libSUPPORT.a) $(call sees,$1)
	@echo "LD  $$@"
	@$$(CC) $$(BASE_CFLAGS) $$(BASE_LDFLAGS) $$^ $$(TEST_LIBS) $$(LIBS) -o $$@
endef
$(foreach source,$(TEST_SOURCES),$(eval $(call test_program,$(source))))

# libFuzzer brings a main of its own.
define fuzz_target
$(OUT)/tests/fuzz/$1_fuzz: $$(call objects,tests/fuzz/$1_fuzz.c $$(FUZZ_SHARED) $$($1_FUZZ) $$(if $$(FUZZER),,tests/fuzz/replay.c)) \
		$$(OUT)/libSUPPORT.a $$(call library,$$(server_SEES))
	@echo "LD  $$@"
	@$$(CC) $$(BASE_CFLAGS) $$(BASE_LDFLAGS) $$(if $$(FUZZER),-fsanitize=fuzzer) $$^ $$(TEST_LIBS) $$(LIBS) -o $$@
endef
$(foreach source,$(FUZZ_SOURCES),$(eval $(call fuzz_target,$(patsubst tests/fuzz/%_fuzz.c,%,$(source)))))

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

# ---- what to run ----

ifneq ($(if $(CHECKED)$(SAN),yes),)
unit: $(SELECTED)
	@BUILD=$(BUILD) OUT=$(OUT) scripts/run_tests.sh $(SELECTED)
else
unit:
	@$(MAKE) CHECKED=1 unit
endif

e2e:
	@scripts/setup.sh test
	+@BUILD=$(BUILD) SAN=$(SAN) INCIPIT_CPU=$(CPU) ONLY=$(ONLY) scripts/test.sh e2e

setup:
	@scripts/setup.sh serve $(MODEL)

serve:
	@scripts/setup.sh serve $(MODEL)
	@$(MAKE) all
	@exec $(BUILD)/incipit serve --model $(MODEL) $(ARGS)

test:
	@scripts/setup.sh test
	+@BUILD=$(BUILD) SAN=$(SAN) INCIPIT_CPU=$(CPU) scripts/test.sh

test-long:
	@scripts/setup.sh test-long
	+@BUILD=$(BUILD) SAN=$(SAN) INCIPIT_CPU=$(CPU) scripts/test.sh --long

fuzz:
	+@BUILD=$(BUILD) scripts/fuzz.sh $(TARGET) $(if $(TARGET),$(MINUTES))

bench:
	@scripts/setup.sh serve $(MODEL)
	@$(MAKE) all
	@$(BUILD)/incipit bench --model $(MODEL) $(ARGS)

bench-kernels: $(BUILD)/kernels_bench
	@$(BUILD)/kernels_bench $(ARGS)

format:
	@scripts/format.sh

tidy:
	@BUILD=$(BUILD) scripts/tidy.sh

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

clean:
	rm -rf $(BUILD)
