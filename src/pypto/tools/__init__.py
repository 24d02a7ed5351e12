"""The command line: what a user does with kernels from a shell."""
