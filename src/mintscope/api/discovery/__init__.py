"""Documents that let programs discover the API: OpenAPI, llms.txt, catalogues."""
