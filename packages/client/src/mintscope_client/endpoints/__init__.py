"""The endpoints, a file for each group: results, options and calls.

Results have the fields that `GET /openapi.json` describes; fields that a newer service adds are
ignored.  A call is data until a client sends it; `methods` names the calls that clients have.
"""
