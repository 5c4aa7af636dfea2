"""The verbs that join index and reader: retrieve, rerank, ask, explain."""
