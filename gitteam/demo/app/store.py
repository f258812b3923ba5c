"""The books of the library, and who wrote them."""

AUTHORS = {"1": {"id": "1", "name": "Ursula K. Le Guin"}, "2": {"id": "2", "name": "Italo Calvino"}}

BOOKS = {
    "1": {"id": "1", "title": "The Dispossessed", "year": 1974, "author": "1"},
    "2": {"id": "2", "title": "The Lathe of Heaven", "year": 1971, "author": "1"},
    "3": {"id": "3", "title": "Invisible Cities", "year": 1972, "author": "2"},
}
