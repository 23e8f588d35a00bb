"""What the text of a program tells before it is interpreted."""
