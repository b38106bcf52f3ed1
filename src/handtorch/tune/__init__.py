"""Search kernel parameters on this device, in a child process, verified numerically."""
