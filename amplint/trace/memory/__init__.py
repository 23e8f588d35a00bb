"""GPU memory of training: model states, and the peak of a script."""
