#!/usr/bin/env bash
# A certificate for the webhook by openssl, for clusters without cert-manager.
#
#   deploy/certificate.sh secret  | kubectl apply -f -   # a new authority and a certificate of it, for DAYS days (365)
#   deploy/certificate.sh webhook | kubectl apply -f -   # deploy/webhook with that authority
#
# To renew it, do both again. The authority before the new one stays trusted, because the webhook's pod sees a new Secret later
# than the API server sees the new authority. The authority's key is thrown away: nobody can make another certificate with it.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name=keyfob-audience.keyfob-system.svc
days="${DAYS:-365}"

encoded() { base64 | tr -d '\n'; }
trusted() {
    kubectl --namespace keyfob-system get secret keyfob-audience-tls --ignore-not-found \
        --output 'jsonpath={.data.ca\.crt}' | base64 -d
}

secret() {
    umask 077
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    trusted | awk '/BEGIN/ { n++ } n == 1' >"$work/before.crt"
    cd "$work"
    new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    openssl req -x509 "${new_key[@]}" -keyout ca.key -out ca.crt -days "$days" -subj "/CN=keyfob-audience authority"
    openssl req -new "${new_key[@]}" -keyout tls.key -out tls.csr -subj "/CN=$name"
    printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n' "$name" >extensions
    openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out tls.crt -days "$days" -extfile extensions
    cat <<SECRET
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: keyfob-audience-tls
  namespace: keyfob-system
data:
  ca.crt: $(cat ca.crt before.crt | encoded)
  tls.crt: $(encoded <tls.crt)
  tls.key: $(encoded <tls.key)
SECRET
}

webhook() {
    sed "s|^  clientConfig:|&\n    caBundle: $(trusted | encoded)|" "$here/webhook/webhook.yaml"
}

case "${1:-}" in
secret | webhook) "$1" ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
