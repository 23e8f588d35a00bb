"""A record of a run as one HTML page that needs nothing from elsewhere; `document.page` makes it."""
