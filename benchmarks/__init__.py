"""What is measured: thin asv classes; their models and data are in :mod:`.workloads`.

asv imports this directory alone, under its own name, so everything a benchmark needs lies inside
it. Python 3.6 syntax, PyTorch 0.1.12 API onwards.
"""
