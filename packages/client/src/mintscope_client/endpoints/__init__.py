"""The endpoints of the service, in groups: for each, its results, its options and its requests.

Results have the fields that `GET /openapi.json` describes; fields that a newer service adds are
ignored.  A function of these modules returns a call, or the calls of pages, which a client then
sends.  `methods` lists the methods of clients.
"""
