"""Ours and what a user would pick instead, side by side, each in a process of its own.

    case        what is compared: a model's training step or inference, or a product of matrices
    side        what a side's process does: the protocol, its own end
    process     the bench's end of it: a live process that can be asked
    sides/      a file for each peer, and ours
    prepare     weights, batches and the results that count, written to a folder for all
    compare     one case on all sides: results first, then times in turn, then memory
    rows        what was found as rows of a run file, and verdicts
"""
