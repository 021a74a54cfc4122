"""Why is my device idle? Measures where the time of a training goes, names the cause, and suggests the fix."""
