"""An agent, written only from the specification, as a developer would write it."""

from dataclasses import dataclass
from typing import Any

import httpx

from mintscope.accounts.keys.scope import Scope
from support.scenes.accounts_service import (
    CONFIRM_PATH,
    EMAIL,
    EXCHANGE_PATH,
    SIGNUP_PATH,
    STATUS_PATH,
    signup_body,
)
from support.scenes.service import Service


@dataclass
class Agent:
    service: Service
    email: str = EMAIL
    signup_id: int = 0
    secret: str = ""

    async def sign_up(self) -> None:
        response = await self.post(SIGNUP_PATH, signup_body(self.email))
        assert response.status_code == 201, response.text
        self.signup_id = response.json()["signupId"]
        self.secret = response.json()["applicationSecret"]

    async def confirm(self) -> None:
        code = self.service.accounts.code(self.email)
        response = await self.post(CONFIRM_PATH, self.credentials() | {"code": code})
        assert response.status_code == 200, response.text

    async def be_approved(self, *scopes: Scope) -> None:
        await self.service.accounts.approve(self.signup_id, *scopes)

    async def exchange(self, secret: str | None = None, **headers: str) -> httpx.Response:
        body = self.credentials() | ({} if secret is None else {"applicationSecret": secret})
        return await self.post(EXCHANGE_PATH, body, **headers)

    async def status(self) -> httpx.Response:
        return await self.post(STATUS_PATH, self.credentials())

    async def key(self, *scopes: Scope) -> str:
        """Apply for *scopes*, complete all steps, and return the API key."""
        await self.sign_up()
        await self.confirm()
        await self.be_approved(*scopes)
        response = await self.exchange()
        assert response.status_code == 200, response.text
        return str(response.json()["apiKey"])

    def credentials(self) -> dict[str, Any]:
        return {"email": self.email, "applicationSecret": self.secret}

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.service.client.post(path, json=body, headers=named)
