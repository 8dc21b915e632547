"""What leaves a party depends on its private inputs through declared functions alone.

A run is watched from outside: every file of the exchange, every summary and notice, every line that
is logged or printed, every error with its traceback. It is run again on inputs that say the same in
another way, and must then be the same to the byte. See `docs/guarantee.md`.
"""
