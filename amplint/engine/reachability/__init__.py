"""Whether a program reaches the place of a finding: exceptions, callers, and settings in front of it."""
