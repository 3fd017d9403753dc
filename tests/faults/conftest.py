import os
import random

import pytest

from harness import Rig


@pytest.fixture
def rig(tmp_path):
    """Makes rigs; what still runs at the end of the test is killed."""
    made = []

    def make(**options):
        made.append(Rig(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def seed(request):
    """FAULTS_SEED=n repeats a run; the seed is printed when the test fails."""
    value = int(os.environ.get("FAULTS_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"FAULTS_SEED={value}")
    return random.Random(value)
