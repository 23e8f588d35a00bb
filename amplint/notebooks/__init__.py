"""Jupyter notebooks, and scripts with IPython lines, converted to Python text and back."""
