"""Every op of the op set in NumPy, by family: slow, plain, trusted."""
