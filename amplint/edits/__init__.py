"""Repairs that several rules and codemods write."""
