"""From passages to an answer: candidate spans, the choice among them, and how sure it is."""
