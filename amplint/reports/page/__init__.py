"""A record of a run as a self-contained HTML page; `document.page` creates it."""
