"""The simulated stack machine: instructions, assembler, interpreter."""
