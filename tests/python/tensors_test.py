#!/usr/bin/env python3
"""tensors_cases.py with every interpreter that has numpy."""

import jaxes

jaxes.run_in_each("tensors_cases.py", ["numpy"])
