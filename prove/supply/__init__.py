"""Lists a service's packages for `make sbom`, and finds vulnerable ones for `make audit`."""
