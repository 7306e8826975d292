"""What is asked: families of problems, their programs, splits and tokens."""
