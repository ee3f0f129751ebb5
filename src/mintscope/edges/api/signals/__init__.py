"""The routes of alert rules: /v1/signals."""
