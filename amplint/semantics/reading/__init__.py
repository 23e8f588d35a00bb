"""Facts read from a program's text before its interpretation."""
