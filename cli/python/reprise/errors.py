"""The one error that the package raises on purpose: what is wrong, where, and what to do."""


class RepriseError(Exception):
    """Something that the user can mend; the message says how."""
