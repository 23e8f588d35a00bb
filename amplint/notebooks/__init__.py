"""Jupyter notebooks, and scripts that hold lines of IPython, as Python text and back."""
