"""What every part of the package uses: files and locks, worker processes, the console, the machine, clocks and counters."""
