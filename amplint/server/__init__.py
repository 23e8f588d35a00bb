"""A Language Server Protocol server: findings, explanations and fixes in editors, as the user types."""
