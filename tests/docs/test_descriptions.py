"""Every operation, field and refusal has a description; a failure names those that have none.

For an operation, write the docstring of its handler and `refusals=` of its `Operation`; for a field
of a wire struct, write `Annotated[int, about("Meaning, unit.", EXAMPLE)]` (`kit.primitives.about`).
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from mintscope.api.discovery.openapi import Identity, describe, parameters_of
from mintscope.api.discovery.operation import EVENTS_TYPE, JSON_TYPE, TAGS, Operation
from mintscope.api.discovery.responses import Examples, Schema, schemas_of
from mintscope.kit.errors import ErrorCode
from mintscope.kit.http.application import HttpApplication
from support.scenes.payments.payment_world import world_at
from support.scenes.payments.selling_api import opened

LENGTH_MIN = 40
LENGTH_MAX = 500  # a directory shows no more
HAVE_FIELDS = (JSON_TYPE, EVENTS_TYPE)


@pytest.fixture
async def operations(tmp_path: Path) -> AsyncIterator[list[Operation]]:
    """Yield all operations of a service that sells and keeps accounts."""
    async with world_at(tmp_path) as world, opened(world) as shop:
        assert isinstance(shop.service.app, HttpApplication)
        yield [route for route in shop.service.app.router if isinstance(route, Operation)]


def undescribed(components: Mapping[str, Schema]) -> list[str]:
    """Return the fields of *components* that have no description."""
    return [
        f"{name}.{field}"
        for name, schema in components.items()
        for field, shape in schema.get("properties", {}).items()
        if not shape.get("description")
    ]


async def test_every_operation_has_a_description_of_40_to_500_characters(
    operations: list[Operation],
) -> None:
    lacking = [
        f"{each.method} {each.path}"
        for each in operations
        if not LENGTH_MIN <= len(each.description) <= LENGTH_MAX
        or each.description == each.summary
        or not each.description.isascii()
    ]
    assert lacking == [], f"expected a description of {LENGTH_MIN} to {LENGTH_MAX} characters"


async def test_every_operation_declares_its_refusals(operations: list[Operation]) -> None:
    assert [each.path for each in operations if ErrorCode.RATE_LIMITED not in each.refusals] == []
    paid = [each for each in operations if each.is_payable]
    assert paid
    for each in paid:
        assert {ErrorCode.PAYMENT_REQUIRED, ErrorCode.PAYMENT_PENDING} <= set(each.refusals)
    for each in operations:
        if each.proofs and () not in each.proofs and not each.is_payable:
            assert ErrorCode.MISSING_TOKEN in each.refusals, each.path


async def test_every_field_has_a_meaning_and_an_example(operations: list[Operation]) -> None:
    shapes = dict.fromkeys(
        shape
        for each in operations
        for shape in (each.data, each.body, each.query, each.error_format.body_type)
        if shape is not None and (shape is not each.data or each.media_type in HAVE_FIELDS)
    )
    schemas, components = schemas_of(tuple(shapes))
    examples = Examples(components)
    for schema in schemas:
        examples.of(schema)

    assert undescribed(components) == []
    assert examples.missing == []


async def test_every_parameter_has_a_meaning_and_an_example(operations: list[Operation]) -> None:
    for operation in operations:
        for each in parameters_of(operation):
            assert each["description"], f"{operation.path}: {each['name']}"
            if each["required"]:
                assert "example" in each, f"{operation.path}: {each['name']}"


async def test_names_of_operations_are_unique_and_their_tags_are_known(
    operations: list[Operation],
) -> None:
    names = [each.name for each in operations]
    assert len(names) == len(set(names))
    assert {each.tag for each in operations} <= {tag.name for tag in TAGS}


async def test_the_document_is_valid_openapi(operations: list[Operation]) -> None:
    document = describe(operations, Identity(origin="https://api.example"))
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
