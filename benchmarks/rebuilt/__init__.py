"""Task files rebuilt from facts about a public suite's problems: operators, shapes, and no code.

`facts.py` reads them, `chains.py` and `networks.py` write modules that run the same operators, `traced.py`
tells whether they do. `benchmarks/rebuild.py` is the command.
"""
