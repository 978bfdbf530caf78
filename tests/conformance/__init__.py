"""Against the real peers: their own clients and servers, from their own packages."""
