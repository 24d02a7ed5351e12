"""The compiler's front end: a kernel's Python becomes a graph by running once, in place."""
