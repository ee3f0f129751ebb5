"""Alert rules over the values of a report: what they say, and when they fire."""
