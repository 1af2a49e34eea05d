"""What errors call a thing that is not what was expected."""

from rowloom.plan import PlanData


def described(value: object) -> str:
    """Its type with an article: `a list`, `an ndarray`; of a plan also whose it is."""
    kind = type(value)
    if isinstance(value, PlanData):
        return f"a {kind.__name__} of {'.'.join(kind.__module__.split('.')[:2])}"
    spoken_with_a_vowel = kind.__name__[0] in "aeiouAEIOU" or kind.__name__ == "ndarray"
    return f"{'an' if spoken_with_a_vowel else 'a'} {kind.__name__}"


def type_name(name: str) -> str:
    """An element type as errors name it, the language's way: `f32`, `bf16`, `i64`. As the native module's `language_name`, for
    what is refused before a call reaches it, also in compiled code, which cannot ask it."""
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        bits = name.removeprefix(long)
        if bits != name and bits.isdecimal():
            return short + bits
    return name
