"""Models for the simulator from recorded outcomes, fitted or replayed."""
