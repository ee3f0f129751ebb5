from mintscope_client.async_client import AsyncClient
from mintscope_client.budget import CreditBudget
from mintscope_client.client import Client
from mintscope_client.errors import ClientError

__all__ = ["AsyncClient", "Client", "ClientError", "CreditBudget"]
