"""The data the zoo's models are trained on: readers of the published formats, NumPy alone."""
