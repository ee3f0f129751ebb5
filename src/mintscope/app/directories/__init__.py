"""Files and checks for directories of services."""
