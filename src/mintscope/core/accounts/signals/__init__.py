"""Alert rules of users: kept, evaluated, and told by webhook or e-mail."""
