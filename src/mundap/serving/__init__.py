"""Questions over HTTP: the API, the page, and what keeps both safe. Needs the extra `serve`."""
