"""Rules about the record of a run from `amplint trace`."""
