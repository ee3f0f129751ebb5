-- The outcome of a webhook is noted in webhooks.sqlite from now on: what an older version noted here
-- stays as it was.
DROP INDEX signal_firing_due;
DROP INDEX signal_firing_waiting;
