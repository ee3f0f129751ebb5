"""Alerts to Telegram: chats of accounts, messages, the bot, pages."""
