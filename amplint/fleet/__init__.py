"""Linting many repositories: each on its own, on a cluster, into Parquet files."""
