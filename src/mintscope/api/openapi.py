"""x."""

from mintscope.api.call import Call, Reply


class Document:
    """X."""

    async def get(self, call: Call) -> Reply:
        """X."""
        return Reply(200, b"{}")
