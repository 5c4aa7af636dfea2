"""Attacks on the product: kills, damage, lack of room and memory, readers beside writers, hostile input."""
