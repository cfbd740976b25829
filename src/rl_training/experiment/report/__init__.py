"""Reports about runs: one HTML page with curves, comparisons, settings and everything else that the runs wrote."""
