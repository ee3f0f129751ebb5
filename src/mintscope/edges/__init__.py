"""One outside thing each; edges never import each other, but for `server`, which api and web stand on."""
