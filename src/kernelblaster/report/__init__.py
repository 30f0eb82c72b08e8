"""Reports on benches, runs and knowledge bases: HTML pages, tables, figures. Reads only."""
