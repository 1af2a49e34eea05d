"""`python -m rowloom.prior_art`."""

import sys

from rowloom.prior_art.command import main

sys.exit(main())
