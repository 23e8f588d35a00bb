"""Facts about a training file, from its text and one interpretation; it writes no edits."""
