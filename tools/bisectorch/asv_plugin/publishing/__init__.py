"""What becomes of asv's results and our sessions when a site is published.

``engine`` writes asv's own files without asv's detours; ``libraries`` and ``marks`` make asv's
pages work without a network and show our culprits; ``histories`` reads asv's results for ours.
"""
