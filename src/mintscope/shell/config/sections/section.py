"""What every part of the configuration is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration, for one component."""

    model_config = ConfigDict(frozen=True, extra="forbid")
