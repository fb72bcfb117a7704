"""A directory of asv benchmarks: what a machine is measured by before any project is built."""
