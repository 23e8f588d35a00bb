"""What a run showed: rules about the record that `amplint trace` makes."""
