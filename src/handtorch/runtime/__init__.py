"""Programs on devices: the protocol, resident state, and three executors behind it."""
