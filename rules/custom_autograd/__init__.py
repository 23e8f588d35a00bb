"""AMP6xx: custom autograd, checkpointing, tracing."""
