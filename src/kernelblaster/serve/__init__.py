"""The live dashboard: pages about runs, benches and knowledge bases while they are written. It reads, and
asks searches for something only through the public API."""
