from mintscope.client.async_client import AsyncClient
from mintscope.client.budget import CreditBudget
from mintscope.client.client import Client
from mintscope.client.errors import ClientError

__all__ = ["AsyncClient", "Client", "ClientError", "CreditBudget"]
