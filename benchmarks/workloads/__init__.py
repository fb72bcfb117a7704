"""Models and data of the benchmarks: torch and numpy only, Python 3.6 syntax."""
