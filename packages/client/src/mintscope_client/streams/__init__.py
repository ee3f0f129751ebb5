"""Streams of reports as they change, by server-sent events or by WebSocket."""
