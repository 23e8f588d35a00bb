"""Models that FSDP has sharded, and what still takes them for whole ones."""
