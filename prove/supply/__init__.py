"""The packages of a service: `make sbom` lists them, `make audit` compares them with advisories."""
