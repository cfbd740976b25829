"""One file per format; each reads a path into a `Table` and writes one."""
