# SPDX-License-Identifier: BSD-2-Clause
"""Pages for everybody, a login, and an editor's form."""
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from news import views
from news.models import Article


@login_required
def edit(request, pk):
    article = Article.objects.get(pk=pk)
    if request.method == "POST":
        article.title = request.POST["title"]
        article.save()
        return redirect(f"/article/{pk}")
    return render(request, "form.html", {"article": article})


@login_required
def create(request):
    return HttpResponse(Article.objects.create(title=request.POST["title"]).pk)


urlpatterns = [
    path("", views.front),
    path("article/<int:pk>", views.article),
    path("article/<int:pk>/edit", edit),
    path("article/new", create),
    path("quiet", lambda request: HttpResponse(f"quiet {Article.objects.count()}")),
    path("accounts/login/", auth.LoginView.as_view(template_name="login.html")),
]
