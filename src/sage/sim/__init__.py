"""Software tasks that run in sandboxes, and an environment to learn on them."""
