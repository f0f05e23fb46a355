"""Reads the envelopes of a proof file as strangers do, with securesystemslib alone."""

import json
import sys

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

proof = json.load(sys.stdin)
key = SSlibKey(sys.argv[1], "ed25519", "ed25519", {"public": sys.argv[2]})
for data in proof["statements"] + [proof["manifest"]]:
    envelope = Envelope.from_dict(data)
    envelope.verify([key], 1)
    assert envelope.payload_type == "application/vnd.in-toto+json", envelope.payload_type
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1", statement["_type"]
    print(statement["predicateType"])

    envelope.payload = envelope.payload.replace(b"builder", b"mallory") + b" "
    try:
        envelope.verify([key], 1)
    except VerificationError:
        continue
    sys.exit("a changed payload passes")
