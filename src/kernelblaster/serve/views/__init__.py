"""The contents of the dashboard's pages. Each is made of parts, which are sent again when they change."""
