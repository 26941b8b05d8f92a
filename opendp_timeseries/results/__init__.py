"""Results: what a series is, and how it is shown in frames, figures, pages and spreadsheets."""
