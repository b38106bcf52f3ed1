"""OpenCL C kernels, what each needs, and how it is launched."""
