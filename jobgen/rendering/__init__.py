"""From a Plan to the text of a script, and why each line is there."""
