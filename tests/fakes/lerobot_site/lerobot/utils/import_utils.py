"""Third-party packages: there are none."""

calls: list[str] = []


def register_third_party_plugins() -> None:
    calls.append("register")
