"""Render a Plan to the text of a script, and explain each line."""
