"""The differential test of the dtype flow: random programs on the linter and on real PyTorch."""
