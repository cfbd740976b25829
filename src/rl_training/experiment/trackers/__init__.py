"""Programs and services, such as TensorBoard and Weights & Biases, that a run sends its metrics to."""
