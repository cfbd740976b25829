"""Models as recorded outcomes say: fitted or replayed, for the simulator."""
