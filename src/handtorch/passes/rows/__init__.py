"""Whether a step on a whole batch is the sum of steps on parts of it: a proof, op by op."""
