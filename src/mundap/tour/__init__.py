"""What `mundap tour` shows, computed by the same functions that answer questions: nothing here is made up."""
