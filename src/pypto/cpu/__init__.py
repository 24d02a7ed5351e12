"""From a graph to machine code: plan, emit LLVM IR, load, run."""
