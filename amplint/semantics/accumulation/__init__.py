"""Windows of gradient accumulation: loops, what ends a window, and what runs before it ends."""
