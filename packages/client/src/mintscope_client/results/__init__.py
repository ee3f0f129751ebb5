"""Answers, typed: field for field what `GET /openapi.json` describes.

Fields that a newer service adds are ignored.
"""
