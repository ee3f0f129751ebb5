"""Payments on chain: the node, the reserves, the price sources."""
