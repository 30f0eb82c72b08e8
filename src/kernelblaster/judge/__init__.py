"""The judge of candidates: screens, compiles, verifies, times and profiles them; each stage has its own
modules. It does not know who wrote a candidate."""
