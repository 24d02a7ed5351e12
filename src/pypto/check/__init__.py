"""What the chip asks of a graph, found before the kernel runs."""
