"""docs/sage/report.md: a part for each subject, written from the result files."""
