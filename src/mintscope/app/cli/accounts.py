"""Commands about applications and users."""

import sys
from typing import Annotated, Final, TypeAlias

import typer

from mintscope.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.accounts.factor_rows import User
from mintscope.accounts.keys.scope import READ_SCOPES, Scope, UnknownScope, in_order, parse_scopes
from mintscope.accounts.signups.application import (
    NOTE_LENGTH_MAX,
    Application,
    ApplicationState,
    SignupId,
)
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.user import WeakPassword, expect_password
from mintscope.app.cli.config import ConfigFile
from mintscope.app.cli.output import (
    LINES,
    NUMBER_MAX,
    AsJson,
    Limit,
    moment,
    print_json,
    print_page,
    print_rows,
    refusing,
    visible,
)
from mintscope.app.cli.stores import with_reviews
from mintscope.app.stores.passwords import open_hasher
from mintscope.kit.audit import COMMAND_LINE, UserId

ALL: Final = "all"
PAGE_LENGTH: Final = 200

app = typer.Typer()
application_commands = typer.Typer(help="Review applications for access.", no_args_is_help=True)
app.add_typer(application_commands, name="applications")

Number = Annotated[
    int, typer.Argument(help="Number of the application.", metavar="NUMBER", min=1, max=NUMBER_MAX)
]
Note = Annotated[str, typer.Option(metavar="TEXT", help="A reason; only administrators see it.")]


@application_commands.command("list")
def list_applications(
    *,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            help=f"List the applications in this state: {', '.join(ApplicationState)} or {ALL}.",
        ),
    ] = ApplicationState.AWAITING_APPROVAL,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List applications, by default those that await approval, oldest first.

    With --state all, the newest are first.
    """
    wanted = _state(state)
    found = with_reviews(config, lambda reviews: _all(reviews, wanted))
    rows = [
        (one.signup_id, one.state, moment(one.applied_at), one.form.user_type, one.form.email)
        for one in found
    ]
    print_rows(("number", "state", "applied", "userType", "email"), rows, as_json=as_json)


@application_commands.command()
def show(number: Number, *, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show the state, contact data, requested scopes, decision and motivation of an application."""
    application = with_reviews(config, lambda reviews: reviews.application(SignupId(number)))
    if application is None:
        raise typer.BadParameter("there is no application with it", param_hint="NUMBER")
    if as_json:
        facts = {_key(name): text for name, text in _facts(application)}
        print_json(facts | {"motivation": application.form.motivation})
        return
    for name, text in _facts(application):
        print(f"{name:13}  {'-' if text is None else visible(text)}")
    print("\nmotivation")
    for line in application.form.motivation.split("\n"):
        print(f"  {visible(line)}")


@application_commands.command()
def approve(
    number: Number,
    *,
    scopes: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPES",
            help="Scopes besides reading, separated by commas, as `trade:write,groups:write`.",
        ),
    ] = None,
    note: Note = "",
    unconfirmed: Annotated[
        bool,
        typer.Option("--unconfirmed", help="Approve also if the e-mail address is not confirmed."),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Approve an application: the applicant can exchange the secret for a key, and is notified.

    If the key of the application has requested further scopes, this command instead adds SCOPES to
    the key, or without --scopes, the requested scopes.
    """
    with refusing("--scopes", UnknownScope):
        named = None if scopes is None else parse_scopes(scopes.replace(",", " ").split())
    checked_note = _checked(note)

    async def work(reviews: Reviews) -> Application:
        return await reviews.approve(
            SignupId(number),
            scopes=await _requested(reviews, number) if named is None else named,
            note=checked_note,
            actor=COMMAND_LINE,
            unconfirmed=unconfirmed,
        )

    approved = with_reviews(config, work)
    is_of_key = approved.state is ApplicationState.KEY_ISSUED
    done = "granted the request of" if is_of_key else "approved"
    print(f"{done} application {number} of {visible(approved.form.email)}")
    has = "has" if is_of_key else "will have"
    print(f"its key {has} {', '.join(in_order(READ_SCOPES | approved.scopes))}")


@application_commands.command()
def reject(number: Number, note: Note = "", config: ConfigFile = None) -> None:
    """Reject an application; notify the applicant if the e-mail address was confirmed.

    If the key of the application has requested further scopes, this command instead refuses them.
    """
    checked_note = _checked(note)
    rejected = with_reviews(
        config,
        lambda reviews: reviews.reject(SignupId(number), note=checked_note, actor=COMMAND_LINE),
    )
    is_of_key = rejected.state is ApplicationState.KEY_ISSUED
    done = "refused the request of" if is_of_key else "rejected"
    print(f"{done} application {number} of {visible(rejected.form.email)}")


@application_commands.command()
def reset(number: Number, config: ConfigFile = None) -> None:
    """Revoke the key of an application, so that the secret can be exchanged again.

    Use this command if the applicant has lost the response that contained the key.
    """
    reopened = with_reviews(
        config, lambda reviews: reviews.reset(SignupId(number), actor=COMMAND_LINE)
    )
    email = visible(reopened.form.email)
    print(f"revoked the key of application {number}; {email} may exchange the secret again")


@application_commands.command()
def forget(number: Number, config: ConfigFile = None) -> None:
    """Delete an application with its key and agent account; the same e-mail may apply again."""
    with_reviews(config, lambda reviews: reviews.forget(SignupId(number), actor=COMMAND_LINE))
    print(f"deleted application {number}")


async def _requested(reviews: Reviews, number: int) -> frozenset[Scope]:
    """Return the scopes that the key of the application has requested and that await a decision."""
    application = await reviews.application(SignupId(number))
    if application is None or application.asked_at is None:
        return frozenset()
    return application.form.asked_scopes


async def _all(reviews: Reviews, state: ApplicationState | None) -> list[Application]:
    found: list[Application] = []
    page = await reviews.applications(state, limit=PAGE_LENGTH)
    while page:
        found += page
        page = await reviews.applications(state, after=page[-1].signup_id, limit=PAGE_LENGTH)
    return found


def _key(name: str) -> str:
    """Return *name* in camelCase."""
    first, *rest = name.replace("e-mail", "email").split()
    return first + "".join(map(str.capitalize, rest))


def _facts(application: Application) -> list[tuple[str, str | None]]:
    form = application.form
    why = None if application.asked_at is None else application.asked_why or None
    return [
        ("number", str(application.signup_id)),
        ("state", application.state + (", account removed" if application.user_removed else "")),
        ("e-mail", form.email),
        ("telegram", form.telegram),
        ("twitter", form.twitter),
        ("user type", form.user_type),
        ("asked scopes", ", ".join(in_order(form.asked_scopes)) or None),
        ("key asked", moment(application.asked_at)),
        ("asked why", why),
        ("applied", moment(application.applied_at)),
        ("confirmed", moment(application.confirmed_at)),
        ("decided", moment(application.decided_at)),
        ("by", application.decided_by),
        ("scopes", ", ".join(in_order(application.scopes)) or None),
        ("note", application.note or None),
        ("key issued", moment(application.issued_at)),
    ]


def _state(text: str) -> ApplicationState | None:
    if text == ALL:
        return None
    if text not in list(ApplicationState):
        known = ", ".join([*ApplicationState, ALL])
        raise typer.BadParameter(f"expected one of {known}; was {text!r}", param_hint="--state")
    return ApplicationState(text)


def _checked(note: str) -> str:
    if len(note) > NOTE_LENGTH_MAX or not note.replace("\n", " ").isprintable():
        raise typer.BadParameter(
            f"expected at most {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )
    return note


UserNumber: TypeAlias = Annotated[
    int, typer.Argument(help="Number of the user.", metavar="NUMBER", min=1, max=NUMBER_MAX)
]
user_commands = typer.Typer(help="List accounts, or remove one.", no_args_is_help=True)
app.add_typer(user_commands, name="users")
admin_commands = typer.Typer(
    help="Make administrators, who review applications in the browser.", no_args_is_help=True
)
app.add_typer(admin_commands, name="admin")


@user_commands.command("list")
def list_users(
    *,
    before: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Begin after this number.", min=1, max=NUMBER_MAX),
    ] = None,
    limit: Limit = LINES,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the accounts of people and agents, newest first."""
    last = None if before is None else UserId(before)
    found = with_reviews(config, lambda reviews: reviews.users(before=last, limit=limit + 1))
    rows = [
        (
            user.user_id,
            "administrator" if user.is_administrator else user.kind,
            moment(user.created_at),
            moment(user.verified_at),
            user.username,
            user.email,
        )
        for user in found
    ]
    columns = ("number", "kind", "since", "verified", "name", "email")
    print_page(columns, rows, "--before", limit, as_json=as_json)


@user_commands.command()
def remove(number: UserNumber, config: ConfigFile = None) -> None:
    """Remove an account: its API keys are revoked and its sessions end at once."""
    with_reviews(config, lambda reviews: reviews.remove_user(UserId(number), actor=COMMAND_LINE))
    print(f"removed user {number}")


@user_commands.command("drop-second-factor")
def drop_second_factor(number: UserNumber, config: ConfigFile = None) -> None:
    """Turn off two-factor sign-in for a person who has lost phone, passkeys and recovery codes.

    All sessions of the person end, and the person gets an e-mail.
    """
    with_reviews(
        config, lambda reviews: reviews.drop_second_factor(UserId(number), actor=COMMAND_LINE)
    )
    print(f"turned off two-factor sign-in of user {number}")


@admin_commands.callback()
def group() -> None:
    """Make `admin` a group: without a callback, typer would omit the name of its only command."""


@admin_commands.command()
def create(
    email: Annotated[str, typer.Argument(help="E-mail address of the account.", metavar="EMAIL")],
    config: ConfigFile = None,
) -> None:
    """Make the account of EMAIL an administrator; create the account if there is none.

    Asks for a password twice, or reads one line if standard input is not a terminal.  An account
    with a verified e-mail address keeps its password.
    """
    with refusing("EMAIL", UnusableEmailAddress):
        address = parse_email(email)
    with refusing("the password", WeakPassword):
        password = expect_password(_read_password(), email=address)
    user, is_new = with_reviews(
        config, lambda reviews: _make(reviews, address, password), creates=True
    )
    if is_new:
        print(f"made an account for {user.email}, who is now an administrator")
    elif user.verified_at is None:
        print(
            f"{user.email} is an administrator; the e-mail address was not verified, so the"
            " password was replaced, and all sessions and keys of the account have ended"
        )
    else:
        print(f"{user.email} is an administrator; the password was not changed")


async def _make(reviews: Reviews, email: EmailAddress, password: str) -> tuple[User, bool]:
    with open_hasher() as hasher:
        digest = await hasher.hash(password)
    return await reviews.make_administrator(email, password_hash=digest, actor=COMMAND_LINE)


def _read_password() -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")
