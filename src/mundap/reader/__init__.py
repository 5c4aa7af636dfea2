"""What reads passages: at run time, as torch sees it, and the choice among the answers it finds."""
