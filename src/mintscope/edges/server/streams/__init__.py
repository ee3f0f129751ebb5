"""Streams of server-sent events: any number of clients, none of them with a task that waits."""
