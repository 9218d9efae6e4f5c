"""`python -m bench.crash`: what is left after a crash. The same load, the same faults and the same ledger for each
system. Each is set up as its own documentation says for durability; `systems.py` quotes the pages."""
