"""Stores signed payments whose purchases have not arrived.

A payment is removed from the journal when its purchase has arrived, or when the chain proves that
the payment can no longer land.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace
from typing_extensions import Self

from mintscope_client.calls.conversation import NotPaid
from mintscope_client.decoding import Undecodable, decode_json

SENT_MAX: Final = 1_000
SUFFIX: Final = ".payment.json"


class JournalUnusable(NotPaid):
    """The folder of the journal cannot be used, or has a damaged file; the message has the reason.

    No new payment was sent.
    """


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A signed payment whose purchase has not arrived.

    key                the Idempotency-Key of its request; a secret, because it gives anyone the
                       purchase
    request            the request that it pays for, such as "POST https://api.example/v1/..."
    header             the value of its PAYMENT-SIGNATURE header
    amount             the amount in atoms
    memo               the memo of its transaction
    source             the token account of the payer
    slot               a slot that was confirmed before the payment was signed; 0 if unknown
    last_valid_height  the last block height at which it can land; 0 if unknown, as for a blockhash
                       from a 402
    """

    key: str
    request: str
    header: str
    amount: int
    memo: str
    source: str
    slot: int
    last_valid_height: int


_SENT: Final = msgspec.json.Decoder(Sent)


class Journal:
    """The payments of a wallet whose purchases have not arrived, oldest first.

    Raises JournalUnusable if the folder cannot be used.

    folder    the folder with a file for each payment, written before the payment is sent, so that
              another process can continue it.  Only the owner can read the files, because a key
              redeems the purchase.  Payments of other processes that are running are ignored.
              None: payments are stored in memory only
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._sent: dict[str, Sent] = {}
        self._files: dict[str, int] = {}  # descriptors of open, locked files, by key
        self._left: list[str] = []  # keys of payments of earlier processes, oldest first
        self._finished: list[str] = []
        if folder is not None:
            try:
                self._load(folder)
            except OSError as cause:
                # Else the files that were read stay locked, so that no process can claim them.
                self.close()
                raise _unusable(folder, cause) from cause
            except JournalUnusable:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Sent]:
        """Return an iterator over the payments whose outcome is unknown."""
        # A copy, because payments may be removed during the iteration.
        return iter(list(self._sent.values()))

    @property
    def atoms(self) -> int:
        """The atoms of all payments in the journal together."""
        return sum(sent.amount for sent in self)

    @property
    def is_full(self) -> bool:
        """Whether the journal is full: no other payment can be added."""
        return len(self._sent) >= SENT_MAX

    def find(self, key: str) -> Sent | None:
        """Return the payment that was sent under *key* and whose outcome is unknown, if any."""
        return self._sent.get(key)

    def adopt(self, request: str) -> Sent | None:
        """Take over the oldest payment for *request* of an earlier process; None without one."""
        for key in list(self._left):
            sent = self._sent.get(key)
            if sent is not None and sent.request == request:
                with suppress(ValueError):  # another thread has claimed it meanwhile
                    self._left.remove(key)
                    return sent
        return None

    def add(self, sent: Sent) -> None:
        """Add the payment *sent*, and write its file if the journal has a folder.

        Raises JournalUnusable if the file cannot be written.
        """
        assert sent.key not in self._sent
        if self._folder is not None:
            path = self._path(sent.key)
            try:
                self._files[sent.key] = _write(path, msgspec.json.encode(sent))
                _sync_folder(self._folder)
            except OSError as cause:
                with suppress(OSError):
                    path.unlink(missing_ok=True)  # else the next process could send it
                if sent.key in self._files:
                    os.close(self._files.pop(sent.key))
                raise _unusable(self._folder, cause) from cause
        self._sent[sent.key] = sent

    def bound(self, key: str, last_valid_height: int) -> Sent:
        """Record *last_valid_height* in the payment with the key *key*; return the payment.

        If the file of the payment cannot be written, the file stays unchanged: the next process
        asks the node for the height again.
        """
        sent = self._sent[key] = replace(self._sent[key], last_valid_height=last_valid_height)
        if self._folder is not None:
            with suppress(OSError):
                # Locked before the old file is closed: no other process can claim the payment.
                file = _write(self._path(key), msgspec.json.encode(sent))
                os.close(self._files[key])
                self._files[key] = file
                _sync_folder(self._folder)
        return sent

    def finish(self, key: str) -> None:
        """Remove the payment with *key*, whose purchase arrived; `tidy` later deletes its file."""
        if self._forget(key) and self._folder is not None:
            self._finished.append(key)

    def drop(self, key: str) -> None:
        """Delete the payment with the key *key*, which can no longer land."""
        if self._forget(key) and self._folder is not None:
            self._unlink(key)

    def tidy(self) -> None:
        """Delete the files of finished payments; call this when their purchases are stored."""
        while self._finished:
            self._unlink(self._finished.pop())

    def close(self) -> None:
        """Close the files, so that another process can claim the remaining payments."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _forget(self, key: str) -> bool:
        with suppress(ValueError):  # it was sent, or claimed, by this process
            self._left.remove(key)
        return self._sent.pop(key, None) is not None

    def _load(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found: list[tuple[int, Sent]] = []
        for path in folder.glob(f"*{SUFFIX}"):
            locked = _lock(path)
            if locked is not None:
                self._files[path.name] = locked  # until its key is read
                sent = _read(path)
                self._files[sent.key] = self._files.pop(path.name)
                found.append((path.stat().st_mtime_ns, sent))
        found.sort(key=lambda each: each[0])
        self._sent = {sent.key: sent for _, sent in found}
        self._left = list(self._sent)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / (sha256(key.encode()).hexdigest()[:32] + SUFFIX)

    def _unlink(self, key: str) -> None:
        # Before the lock is released, so that no process claims a payment that is over.
        self._path(key).unlink(missing_ok=True)
        os.close(self._files.pop(key))


def _read(path: Path) -> Sent:
    try:
        return decode_json(path.read_bytes(), _SENT)
    except Undecodable as cause:
        raise JournalUnusable(f"expected a payment in {path}; {cause}") from cause


def _write(path: Path, content: bytes) -> int:
    """Write *content* to *path*; return the descriptor of the open, locked file.

    The content is on disk then; the name of the file is on disk after `_sync_folder`.
    """
    new = path.with_suffix(".new")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        # Before the file gets its name, so that no other process can claim the payment.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A duplicate, because `fdopen` closes its descriptor, and *file* keeps the lock.
        with os.fdopen(os.dup(file), "wb") as writing:
            writing.write(content)
        os.fsync(file)
        new.replace(path)
    except BaseException:
        os.close(file)
        raise
    return file


def _sync_folder(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _lock(path: Path) -> int | None:
    """Open and lock the file at *path*, and return its descriptor.

    Return None if the file is missing, was replaced meanwhile, or is locked by another `Journal`.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been replaced or removed between `open` and `flock`.
        if os.path.samestat(path.stat(), os.fstat(file)):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(file)
    return None


def _unusable(folder: Path, cause: OSError) -> JournalUnusable:
    where = f"expected a folder for payments on their way at {folder}"
    return JournalUnusable(f"{where}; {cause.strerror}")
