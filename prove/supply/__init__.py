"""What a service is made of: `make sbom` writes it down, `make audit` looks for advisories."""
