"""`python -m tests.oracle --histories 20000 --whole-runs 200`."""

from tests.oracle.many import main

if __name__ == "__main__":
    main()
