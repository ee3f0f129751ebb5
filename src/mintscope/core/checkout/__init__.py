"""Taking one credit or one payment for what a client asks for; knows no HTTP."""
