"""What users call: a step or a model made, called, read, and kept."""
