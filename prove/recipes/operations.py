"""Claims of `make prove` about long runs, nodes with wrong answers, and outdated backups."""

from typing import Final

from prove.recipe import Mutant, Recipe

LEDGER: Final = "credits/store.py"

LOST: Final = "payments/reconciler.py"
FOREIGN: Final = "kit/errors.py"

SOAK: Final = Recipe(
    name="soak",
    proves="half an hour of requests, purchases and debits grows neither memory, files nor waits",
    tests=("e2e/test_soak.py",),
    mutants=(
        Mutant(
            "each debit leaves something behind",
            LEDGER,
            'DEBITS.labels("empty").inc(empty_count)',
            'self.__dict__.setdefault("left", []).append(b"x" * 50_000 + bytes([len(outcomes)]))',
        ),
        Mutant(
            "each debit leaves a file open",
            LEDGER,
            'DEBITS.labels("empty").inc(empty_count)',
            'self.__dict__.setdefault("left", []).append(open("/dev/null"))',
        ),
    ),
)
NODES: Final = Recipe(
    name="garbled nodes",
    proves="whatever a node or a feed answers, it is a node that does not answer, and nothing else",
    tests=(
        "kit/test_answers_of_strangers.py",
        "solana/test_garbled_node.py",
        "payments/chain/test_garbled_chain.py",
    ),
    mutants=(
        Mutant(
            "bytes that are no text are an error of the decoder",
            FOREIGN,
            "UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
            "UNPARSABLE: Final = (msgspec.DecodeError, RecursionError)",
        ),
        Mutant(
            "JSON that is nested too deep is an error of the decoder",
            FOREIGN,
            "UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
            "UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)",
        ),
        Mutant(
            "characters that are no base64 are skipped",
            FOREIGN,
            "return b64decode(text, validate=True)",
            "return b64decode(text)",
        ),
    ),
)
RESTORE: Final = Recipe(
    name="restored backup",
    proves="a store that is behind the chain finds what it sold, and gives it to its buyers alone",
    tests=(
        "spec/test_restored_payments.py",
        "payments/chain/test_auditing.py",
        "payments/chain/test_orphans.py",
        "e2e/test_restore.py",
    ),
    mutants=(
        Mutant(
            "what was lost is given to anybody",
            LOST,
            "return sighting if _owns(key, verified, secrets)"
            " else ports.AlreadyUsed(ports.Used.LOST)",
            "return sighting",
            ("spec/test_restored_payments.py",),
        ),
        Mutant(
            "what was sold before the backup was never sold",
            LOST,
            "return isinstance(trial, ports.UnknownBlockhash) or trial.error == ALREADY_PROCESSED",
            "return False",
            ("spec/test_restored_payments.py",),
        ),
        Mutant(
            "a fork may take back what was handed out",
            LOST,
            "case Landed(final=True):",
            "case Landed():",
            ("spec/test_restored_payments.py",),
        ),
        Mutant(
            "any text of that length is a one-time key",
            "payments/reconciler.py",
            "return hmac.compare_digest(mac, self._key_mac(message_hash, drawn))",
            "return len(mac) == _KEY_MAC_BYTES",
            ("spec/test_restored_payments.py",),
        ),
        Mutant(
            "what was refunded is handed out, too",
            "payments/store/payments.py",
            "if self._db.execute(IS_ACKNOWLEDGED, (payment.signature,)).get:",
            "if False:",
            ("payments/chain/test_orphans.py",),
        ),
        Mutant(
            "a payment without a quote of ours stops nothing",
            "payments/audit.py",
            "return {*settled, *(each.signature for each in orphans if each.bought is not None)}",
            "return {*settled, *signatures}",
            ("payments/chain/test_orphans.py",),
        ),
    ),
)
RUNNING: Final = "app/test_running.py"
SUPERVISION: Final = Recipe(
    name="supervision",
    proves="if a part dies, fills up or hangs, clients are served or asked to wait, and it heals",
    tests=("e2e/test_supervision.py", "app/cli/test_children.py", RUNNING),
    mutants=(
        Mutant(
            "what needs an operator is started again and again",
            "app/running/serve.py",
            "if code == EXIT_OPERATOR or child.role.has_memory:",
            "if child.role.has_memory:",
            ("app/cli/test_children.py",),
        ),
        Mutant(
            "a process that ended is never started again",
            "app/running/serve.py",
            "if now_s >= child.start_again_s:",
            "if False:",
            ("app/cli/test_children.py",),
        ),
        Mutant(
            "a task that ended is never started again",
            "app/maintenance.py",
            "await sleep(wait_s)",
            "return",
            (RUNNING,),
        ),
        Mutant(
            "ingest ends when the disk is full",
            "app/ingest.py",
            "except StoreUnavailable as trouble:",
            "except KeyError as trouble:",
            ("e2e/test_supervision.py",),
        ),
    ),
)

RECIPES: Final = (SOAK, NODES, RESTORE, SUPERVISION)
