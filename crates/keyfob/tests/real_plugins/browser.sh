#!/bin/sh
# Logs in to oidc-provider-mock as "ada", in place of a person with a browser: opens the page and submits its form.
form=$(curl --silent --show-error --location --output /dev/null --write-out '%{url_effective}' "$1") &&
    curl --silent --show-error --location --output /dev/null --data sub=ada "$form"
