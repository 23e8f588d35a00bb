"""The built-in rules, one file each, grouped by family."""
