# clang-tidy over what changed: make -f tools/tidy.mk BUILD=build
# A file is looked at again when it, a header that it includes, or a .clang-tidy changed.
SOURCES := $(shell sed -n 's|^ *"file": "$(CURDIR)/\(.*\.c\)",*$$|\1|p' \
  $(BUILD)/compile_commands.json | sort -u)
STAMPS := $(SOURCES:%=$(BUILD)/tidy/%.ok)
INCLUDES := -Isrc -Iinclude $(shell pkg-config --cflags-only-I json-c oniguruma cmocka)

.PHONY: all
all: $(STAMPS)

$(BUILD)/tidy/%.ok: % .clang-tidy tests/.clang-tidy
	@echo "clang-tidy $<"
	@mkdir -p $(@D)
	@clang-tidy -p $(BUILD) --quiet --extra-arg=-Wno-unknown-warning-option $< 2>/dev/null
	@$(CC) -MM -MP -MT $@ -MF $(@:.ok=.d) -D_GNU_SOURCE -DFIXTURES= $(INCLUDES) $<
	@touch $@

-include $(STAMPS:.ok=.d)
