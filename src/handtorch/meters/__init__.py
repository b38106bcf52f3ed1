"""What a machine tells of itself while it works. One file per family of sensors; units are
converted here and nowhere else. Standard library only: the sampler's process loads no more."""
