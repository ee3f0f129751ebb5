"""The parts that differ with the configured engine."""
