-- What a client may see of its balance: everything but the spends, which are by far
-- the most and are told as one sum.  A spend never touches this index.
CREATE INDEX credit_entry_received ON credit_entry (account, id) WHERE kind <> 'spend';
