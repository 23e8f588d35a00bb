"""Programs of the fixtures, written in other ways: what they do stays, and so must what is found in them."""
