"""Training examples out of questions and an index: gold passages, distant positives, negatives."""
