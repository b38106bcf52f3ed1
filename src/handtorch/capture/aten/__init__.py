"""ATen -> our op set, one short function per op, a file per family."""
