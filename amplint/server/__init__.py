"""A server of the Language Server Protocol: findings, explanations and fixes in editors, while a file is written."""
