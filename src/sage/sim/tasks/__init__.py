"""Software tasks that are generated, verified and graded."""
