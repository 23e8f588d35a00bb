"""Models sharded by FSDP, and code that assumes unsharded ones."""
