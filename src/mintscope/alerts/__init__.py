"""Alerts: conditions, evaluation, deliveries, store, API, pages."""
