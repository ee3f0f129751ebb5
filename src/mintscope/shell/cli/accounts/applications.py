"""`mintscope applications`: review who wants access."""

from typing import Annotated, Final

import typer

from mintscope.core.accounts.application import (
    NOTE_LENGTH_MAX,
    Application,
    ApplicationState,
    SignupId,
)
from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.keys.scope import (
    READ_SCOPES,
    Scope,
    UnknownScope,
    in_order,
    parse_scopes,
)
from mintscope.core.accounts.reviews import Reviews
from mintscope.shell.cli.accounts.opening import NEVER, ask, moment, visible
from mintscope.shell.cli.config import ConfigFile

ALL: Final = "all"
PAGE_LENGTH: Final = 200
NUMBER_MAX: Final = 2**63 - 1

app = typer.Typer()
application_commands = typer.Typer(help="Review who wants access.")
app.add_typer(application_commands, name="applications")

Number = Annotated[
    int,
    typer.Argument(help="Number of the application.", metavar="NUMBER", min=1, max=NUMBER_MAX),
]
Note = Annotated[str, typer.Option(help="Why; only administrators see it.")]
StateName = Annotated[
    str, typer.Option("--state", help=f"Which: {', '.join(ApplicationState)} or {ALL}.")
]


@application_commands.command("list")
def list_applications(
    state: StateName = ApplicationState.AWAITING_APPROVAL, config: ConfigFile = None
) -> None:
    """List the applications that await approval, the longest waiting first; or others."""
    wanted = _state(state)
    found = ask(config, lambda desk: _all(desk, wanted))
    print(f"{'number':>6}  {'state':21}  {'applied':20}  {'wants':8}  e-mail")
    for one in found:
        print(
            f"{one.signup_id:>6}  {one.state:21}  {moment(one.applied_at):20}"
            f"  {one.form.user_type:8}  {visible(one.form.email)}"
        )


@application_commands.command()
def show(number: Number, config: ConfigFile = None) -> None:
    """Show everything about an application."""
    application = ask(config, lambda desk: desk.application(SignupId(number)))
    if application is None:
        raise typer.BadParameter("there is no application with it", param_hint="NUMBER")
    for name, text in _facts(application):
        print(f"{name:13}  {text}")
    print("\nmotivation")
    for line in application.form.motivation.split("\n"):
        print(f"  {visible(line)}")


@application_commands.command()
def approve(
    number: Number,
    *,
    scopes: Annotated[
        str,
        typer.Option(help="What the key may do beside reading, as `trade:write,groups:write`."),
    ] = "",
    note: Note = "",
    unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="Even if nobody has confirmed the mailbox.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Let the applicant exchange the secret for a key, and write that to the mailbox."""
    granted, checked_note = _scopes(scopes), _checked(note)
    approved = ask(
        config,
        lambda desk: desk.approve(
            SignupId(number),
            scopes=granted,
            note=checked_note,
            actor=COMMAND_LINE,
            unconfirmed=unconfirmed,
        ),
    )
    print(f"approved application {number} of {visible(approved.form.email)}")
    print(f"its key will have {', '.join(in_order(READ_SCOPES | approved.scopes))}")


@application_commands.command()
def reject(number: Number, note: Note = "", config: ConfigFile = None) -> None:
    """Refuse access, and write that to the mailbox if it was confirmed."""
    checked_note = _checked(note)
    rejected = ask(
        config, lambda desk: desk.reject(SignupId(number), note=checked_note, actor=COMMAND_LINE)
    )
    print(f"rejected application {number} of {visible(rejected.form.email)}")


@application_commands.command()
def reset(number: Number, config: ConfigFile = None) -> None:
    """Revoke the key that was issued, and let the same secret be exchanged once more.

    For an applicant who lost the answer with the key.
    """
    application = ask(config, lambda desk: desk.reset(SignupId(number), actor=COMMAND_LINE))
    print(
        f"revoked the key of application {number}; {visible(application.form.email)} may exchange"
        " the secret again"
    )


@application_commands.command()
def forget(number: Number, config: ConfigFile = None) -> None:
    """Delete an application with its key and agent account; its address may apply again."""
    ask(config, lambda desk: desk.forget(SignupId(number), actor=COMMAND_LINE))
    print(f"deleted application {number}")


async def _all(desk: Reviews, state: ApplicationState | None) -> list[Application]:
    found: list[Application] = []
    page = await desk.applications(state, limit=PAGE_LENGTH)
    while page:
        found += page
        page = await desk.applications(state, after=page[-1].signup_id, limit=PAGE_LENGTH)
    return found


def _facts(application: Application) -> list[tuple[str, str]]:
    form = application.form
    return [
        ("number", str(application.signup_id)),
        ("state", application.state + (", account removed" if application.user_removed else "")),
        ("e-mail", visible(form.email)),
        ("telegram", visible(form.telegram or NEVER)),
        ("twitter", visible(form.twitter or NEVER)),
        ("wants to be", form.user_type),
        ("applied", moment(application.applied_at)),
        ("confirmed", moment(application.confirmed_at)),
        ("decided", moment(application.decided_at)),
        ("by", application.decided_by or NEVER),
        ("scopes", ", ".join(in_order(application.scopes)) or NEVER),
        ("note", visible(application.note or NEVER)),
        ("key issued", moment(application.issued_at)),
    ]


def _state(text: str) -> ApplicationState | None:
    if text == ALL:
        return None
    try:
        return ApplicationState(text)
    except ValueError:
        known = ", ".join(ApplicationState)
        raise typer.BadParameter(
            f"expected one of {known}, {ALL}; was {text!r}", param_hint="--state"
        ) from None


def _scopes(text: str) -> frozenset[Scope]:
    try:
        return parse_scopes(text.replace(",", " ").split())
    except UnknownScope as error:
        raise typer.BadParameter(str(error), param_hint="--scopes") from None


def _checked(note: str) -> str:
    if len(note) > NOTE_LENGTH_MAX or not note.replace("\n", " ").isprintable():
        raise typer.BadParameter(
            f"expected at most {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )
    return note
