# SPDX-License-Identifier: BSD-2-Clause
"""usage: manage.py ...   as Django's own; `manage.py fill NAME PASSWORD COUNT` makes a user and articles."""
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")


def fill(name, password, count):
    import django
    django.setup()
    from django.contrib.auth.models import User
    from news.models import Article
    User.objects.create_user(name, password=password)
    Article.objects.bulk_create(Article(title=f"Article {n}") for n in range(int(count)))


if sys.argv[1] == "fill":
    fill(*sys.argv[2:])
else:
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)
