"""Many runs: grids, jobs, processes, what a person sees of them."""
