# SPDX-License-Identifier: BSD-2-Clause
"""What the site is made of."""
from django.db import models


class Article(models.Model):
    title = models.CharField(max_length=200)
