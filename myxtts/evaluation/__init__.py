"""Measure how well a voice speaks. The packages of the metrics are the extra `evaluate`."""
