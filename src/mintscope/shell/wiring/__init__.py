"""The composition root: the only place that names an engine."""
