"""Small programs, one for each framework: a tiny model and random data, on a GPU where one is there."""
