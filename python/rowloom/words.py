"""What errors call a thing that is not what was expected."""

from rowloom.plan import PlanData


def described(value: object) -> str:
    """Its type with an article: `a list`, `an ndarray`; of a plan also whose it is."""
    kind = type(value)
    if isinstance(value, PlanData):
        return f"a {kind.__name__} of {'.'.join(kind.__module__.split('.')[:2])}"
    spoken_with_a_vowel = kind.__name__[0] in "aeiouAEIOU" or kind.__name__ == "ndarray"
    return f"{'an' if spoken_with_a_vowel else 'a'} {kind.__name__}"
