"""Numbers and drawings as pages show them: pure, made on the server, in no need of a script."""
