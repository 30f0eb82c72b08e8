"""Benchmarks and ablation studies over task suites: search every task, measure the results, summarize."""
