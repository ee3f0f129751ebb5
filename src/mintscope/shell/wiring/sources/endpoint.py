"""The node that is configured."""

from mintscope.base.solana import Endpoint
from mintscope.shell.config.sections import ChainConfig


def node_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the node that blocks are read from."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
        timeout_s=chain.timeout_s,
        requests_in_flight=chain.requests_in_flight,
        max_transaction_version=chain.max_transaction_version,
    )
