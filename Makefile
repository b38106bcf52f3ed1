# Each target only calls `python3 -m dev ...`, so a machine without make can do the same.
# PYTHON names the interpreter; ARGS is handed on: make test ARGS="-k plan -x"
PYTHON ?= python3
ARGS ?=

.PHONY: help setup run test slow again timed check oclgrind aarch64 bench reference clean

help setup run test slow again timed check oclgrind aarch64 bench reference clean:
	@$(PYTHON) -m dev $@ $(ARGS)
