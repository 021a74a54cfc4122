"""What a training writes down about itself, and the diagnosis reads: counters, timers, device facts, the status file."""
