"""Claiming the account of an agent, as changes of rows inside one transaction."""

from collections.abc import Sequence

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import note, user_actor
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.people.access import expect_session
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.proof import NewProof, ProofId, Purpose, use_proof
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import User, UserId, UserKind


def agents_of(rows: AccountRows, email: EmailAddress) -> Sequence[User]:
    """Return the agents that have verified that address, newest first."""
    agents = rows.users.of_email(email, UserKind.AGENT)
    return [kept.user for kept in agents if kept.user.verified_at is not None]


def request_claim(
    rows: AccountRows, session: Session, agent_id: UserId, nonce: bytes, at: UnixMs
) -> None:
    """Open a proof and write CLAIM_AGENT, if the person may claim that agent."""
    agent = _find_agent(rows, expect_session(rows, session), agent_id)
    if agent is not None:
        new = NewProof(Purpose.CLAIM_AGENT, agent_id, agent.email, nonce, at)
        proof_id = rows.proofs.insert(new)
        facts = {"username": agent.username}
        rows.emails.insert(EmailKind.CLAIM_AGENT, agent.email, facts, proof_id, at)


def claim(rows: AccountRows, session: Session, proof_id: ProofId, at: UnixMs) -> User | None:
    """Use the proof and give the person all that the agent has; the agent's account ends.

    Return that agent, or None if the proof is used up, or either address is another.
    """
    owner = expect_session(rows, session)
    proof = rows.proofs.get(proof_id)
    agent = None if proof is None else _find_agent(rows, owner, UserId(proof.subject))
    if agent is None or use_proof(rows.proofs, proof_id, Purpose.CLAIM_AGENT, at) is None:
        return None
    rows.user_keys.move(agent.user_id, owner.user_id)
    for signup_id in rows.applications.of_user(agent.user_id):
        rows.applications.update(signup_id, user=owner.user_id)
    rows.users.update(agent.user_id, removed_at=at)
    actor, subject = user_actor(owner.user_id), f"user:{owner.user_id}"
    note(rows.events, at, actor, "claimed agent", subject, agent=f"user:{agent.user_id}")
    return agent


def _find_agent(rows: AccountRows, owner: User, agent_id: UserId) -> User | None:
    """Return the agent if *owner* has verified the address that the agent has verified."""
    if owner.verified_at is None:
        return None
    agents = agents_of(rows, owner.email)
    return next((agent for agent in agents if agent.user_id == agent_id), None)
