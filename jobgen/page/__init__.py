"""The page that composes a job in the browser: built here, answered there by the same package."""
