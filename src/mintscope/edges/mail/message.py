"""An e-mail as an Internet message (RFC 5322): one recipient, plain text, no foreign headers."""

import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from email_validator import validate_email

from mintscope.base.primitives import UnixMs
from mintscope.base.time import utc
from mintscope.core.accounts.mail.email import Email

PLAIN: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")


def message_of(email: Email, *, sender: str, name: str, at: UnixMs) -> EmailMessage:
    """Return *email* as it is handed to the mail server.

    sender    an address; *name* stands before it
    at        goes into Date
    Raises    ValueError for a header that would hold more than its line
    """
    message = EmailMessage(policy=SMTP)
    # Address objects, never texts: "a@example.org, b@example.org" would be two recipients.
    message["From"] = Address(display_name=name, addr_spec=ascii_address(sender))
    message["To"] = Address(addr_spec=ascii_address(email.recipient))
    message["Subject"] = email.subject
    message["Date"] = format_datetime(utc(at))
    message["Message-ID"] = email.message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    message.set_content(email.text, cte="7bit" if email.text.isascii() else "quoted-printable")
    return message


def ascii_address(address: str) -> str:
    """Return *address* with its domain as servers that know no Unicode take it.

    Raises    ValueError for what is not one address
    """
    if PLAIN.fullmatch(address):
        return address
    parts = validate_email(address, check_deliverability=False, allow_smtputf8=False)
    assert parts.ascii_email is not None, "without SMTPUTF8 there is no other"
    return parts.ascii_email
