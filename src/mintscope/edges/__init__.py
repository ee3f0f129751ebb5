"""One outside thing each; edges never import each other; api and web stand on `server`."""
