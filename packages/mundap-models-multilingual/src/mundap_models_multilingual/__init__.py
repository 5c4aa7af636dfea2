"""Model folders that mundap finds by the entry point `mundap.models`. There is no code here."""
