"""A server of the Model Context Protocol: what amplint does, as tools of language models."""
