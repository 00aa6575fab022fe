# Schedules as Make targets: object and headers of a kernel's best schedule.
#
#   include $(shell hvxtune tool where cmake)/hvxtune.mk
#   $(eval $(call hvxtune_schedule,gemm,gemm_u8,m=256 n=256 k=256,static))
#   app: main.o $(HVXTUNE_DIR)/gemm.o
#   main.o: CPPFLAGS += -I$(HVXTUNE_DIR)
#   main.o: $(HVXTUNE_DIR)/gemm.h
#
# The arguments are name, kernel, parameters, contract and, if it is not $(HVXTUNE_TARGET), by
# default the target that commands mean, the target. What $(HVXTUNE_LOCK) pins is what is linked; when that file changes, it is fetched anew.
# `make HVXTUNE_FLAGS=--update` after removing $(HVXTUNE_DIR) pins what is best now, and
# HVXTUNE_FLAGS=--offline asks no service. HVXTUNE_SERVER in the environment names the service.

HVXTUNE ?= hvxtune
HVXTUNE_DIR ?= build/hvxtune
HVXTUNE_LOCK ?= hvxtune.lock
HVXTUNE_TARGET ?=
HVXTUNE_FLAGS ?=

# The stamp is what is compared with the lock file: files that stay the same keep their time.
define hvxtune_schedule
$(HVXTUNE_DIR)/$(1).o $(HVXTUNE_DIR)/$(1).h: $(HVXTUNE_DIR)/$(1).fetched ;
$(HVXTUNE_DIR)/$(1).fetched: $(wildcard $(HVXTUNE_LOCK))
	$(HVXTUNE) fetch $(2) $(addprefix --param ,$(3)) --contract $(4) \
		$(addprefix --target ,$(or $(5),$(HVXTUNE_TARGET))) --name $(1) --output $(HVXTUNE_DIR) \
		--lock $(HVXTUNE_LOCK) $(HVXTUNE_FLAGS)
	@touch $$@
endef
