#!/usr/bin/env python3
"""Writes digits.bin and text.txt (see README.md here). Run by hand.

Needs: pip install numpy scikit-learn; apt install bible-kjv
"""

import pathlib
import re
import subprocess

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent


def main():
    digits = load_digits()
    records = np.column_stack([digits.data, digits.target]).astype(np.uint8)
    (HERE / "digits.bin").write_bytes(records.tobytes())
    verses = subprocess.run(["bible", "-f", "Gen1:1-Exo40:38"], check=True,
                            capture_output=True, text=True).stdout
    text = re.sub(r"^(?:Ge|Exo)\d+:\d+ ", "", verses, flags=re.M)
    (HERE / "text.txt").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
