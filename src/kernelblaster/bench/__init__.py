"""Suites, searched and measured as a whole: how good is it, on this device, and why?"""
