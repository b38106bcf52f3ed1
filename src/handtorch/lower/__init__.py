"""Node -> Steps: which kernels compute an op on a device; pure, refuses aloud."""
