-- What waits of a signal is found without what it fired before.
CREATE INDEX signal_firing_waiting ON signal_firing (signal, id)
 WHERE due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL;
