"""Values that break what is quoted badly."""

import re
import string

from hypothesis import strategies as st

HOSTILE = [
    "",
    " ",
    "a b",
    "'",
    '"',
    'it\'s "quoted"',
    "$HOME",
    "${HOME}",
    "$(touch canary)",
    "`touch canary`",
    "; touch canary",
    "&& touch canary #",
    "| touch canary",
    "> canary",
    "a\nb",
    "\n",
    "a\n\ttouch canary\n",
    "-",
    "--",
    "-n",
    "--help",
    "*",
    "?[a-z]",
    "{a,b}",
    "~",
    "~root/x",
    "!",
    "!!",
    "\\",
    "\\n",
    "a\\",
    "#",
    "%s %d",
    "{{ plan }}",
    "{% raw %}",
    "A=b",
    "é ü → 😀",
    "\u00a0\u3000",
    "$'\\x41'",
    "EOF",
]
VALUES = st.sampled_from(HOSTILE) | st.text(
    st.sampled_from(string.printable) | st.characters(codec="utf-8"), max_size=20
)
# Nobody can see these in a script; a tab and a line feed are harmless in quotes.
REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
