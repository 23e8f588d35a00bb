"""Frameworks that run mixed precision themselves."""
