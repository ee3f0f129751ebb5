"""Words that every row uses; nothing here knows an edge or a rule."""
