"""The configuration of the gRPC stream."""

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class GeyserConfig(Section):
    """A Yellowstone gRPC stream, with chain.source "geyser"; chain.rpc_url repairs it."""

    urls: values.Urls = ()
    """The servers, in order of preference; https means TLS. Only hosts are ever shown."""
    urls_file: values.File = None
    """The file that holds urls instead, one a line."""
    x_tokens: values.Secrets = ()
    """The x-tokens of the providers: one for each of urls, or one for all."""
    x_tokens_file: values.File = None
    """The file that holds x_tokens instead, one a line."""
    ca_file: values.File = None
    """Certificates (PEM) that the servers' must be signed by, or be; without it those of the
    authorities that gRPC knows."""
