"""Training scripts whose memory is measured on a GPU; the last line of what they print is its peak in bytes."""
