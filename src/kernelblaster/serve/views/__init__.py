"""What each page shows, as parts that are sent again when they change."""
