# SPDX-License-Identifier: BSD-2-Clause
"""The site's one application. `views` and `purge` come out of the recipe."""
from django.apps import AppConfig


class News(AppConfig):
    name = "news"

    def ready(self):
        from news import purge  # noqa: F401
