"""Alert rules of users: kept, evaluated, and sent by webhook or e-mail."""
