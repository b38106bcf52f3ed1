"""The sole home of pyopencl: loader, platforms, devices, executor, program cache."""
