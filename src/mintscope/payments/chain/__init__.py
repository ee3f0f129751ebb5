"""Settlement on chain and price sources."""
