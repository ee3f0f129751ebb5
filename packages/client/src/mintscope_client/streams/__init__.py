"""Streams of reports that change, by server-sent events or by WebSocket."""
