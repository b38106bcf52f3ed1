"""One file that tells of a machine what another person needs to help, and nothing of its owner."""
