"""The benchmark models, as ordinary PyTorch modules, and the data they are trained on."""
