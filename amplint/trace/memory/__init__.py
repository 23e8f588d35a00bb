"""How much of a GPU's memory training takes: what a model is made of, and what a script comes to at its peak."""
