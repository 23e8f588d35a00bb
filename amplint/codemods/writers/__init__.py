"""Writers of regions and of the calls of a scaler."""
