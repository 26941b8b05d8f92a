"""Every mutant has one function to break, and tests to be caught by: in the ordinary suite, as names change there."""

from tests.mutants.mutate import find
from tests.mutants.test_mutants import place
from tests.mutants.variants import MUTANTS


def test_every_mutant_has_its_function_and_its_tests():
    for case in MUTANTS:
        find(case.target)
        for test, *_ in case.caught_by:
            place(test)
