"""Asks the server for three completions, and says how many were right."""

import json
import sys
import urllib.request

right = 0
for prompt in ("a b c", "one two", "to be or not"):
    body = json.dumps({"prompt": prompt}).encode()
    with urllib.request.urlopen(sys.argv[1], data=body, timeout=30) as answer:
        right += json.load(answer)["text"].split() == prompt.split()[::-1]
print(f"{right} of 3 are right")
sys.exit(right != 3)
