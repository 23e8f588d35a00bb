"""Edits shared by rules and codemods."""
