"""Stands in for mmcv 1.x."""
