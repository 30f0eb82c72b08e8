"""The live dashboard: web pages about runs, benches and knowledge bases while they are written. It only reads
them; what people ask of a search goes through the public API."""
