#!/bin/sh
# Measures whole commands on generated sites, one line each: seconds by the clock, seconds of processor time, and the
# most memory at any time. Needs git, GNU time and, for the last lines, terraform.
#
#   benches/measure.sh DIR [NODES ...]
#
# DIR is made, and holds the sites afterwards. TRUEUP names the program where it is not target/release/trueup.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
built=${CARGO_TARGET_DIR:-$here/target}/release
trueup=${TRUEUP:-$built/trueup}
time=$(command -v gtime || echo /usr/bin/time)
work=$1
shift
[ $# -gt 0 ] || set -- 1000 10000 100000

measured() {
    what=$1
    shift
    if "$time" -o "$work/time" -f '%e s, %U + %S s of processor time, %M KiB' "$@" >"$work/out" 2>"$work/err"; then
        printf '%-44s %s\n' "$what" "$(cat "$work/time")"
    else
        printf '%-44s failed: %s\n' "$what" "$(tail -n 1 "$work/err")"
    fi
}

mkdir -p "$work"
work=$(cd "$work" && pwd)
for nodes in "$@"; do
    site=$work/site-$nodes
    mkdir -p "$site"
    # Groups of 1,000 machines, each depending on the one before.
    groups=$(((nodes + 999) / 1000))
    "$built/examples/generate_site" "$site" "$nodes" 1 $(((nodes + 39) / 40)) 10 "$groups"
    cd "$site"
    git init -q
    git config user.name measure
    git config user.email measure@example.org
    git add -A
    git commit -q -m 'The site'
    cache=.git/trueup/.cache

    measured "$nodes: bare parse of the same files" "$built/examples/bare_parse" .
    measured "$nodes: apply, --parallelism 1000" "$trueup" apply --yes --parallelism 1000
    measured "$nodes: plan, asking the simulator" "$trueup" plan --save-observed "$work/seen.json"
    sleep 3
    rm -rf "$cache"
    measured "$nodes: no-op plan, cold" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: no-op plan, warm" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: no-op plan, warm, again" "$trueup" plan --observed "$work/seen.json"
    edited=site/large/baremetal/0000/nodes-000000.yaml
    sed -i.bak 's/- worker/- worker\n      - edited/' "$edited"
    rm -f "$edited.bak"
    sleep 3
    measured "$nodes: plan, warm, one file changed" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: git diff --stat" git diff --stat
    measured "$nodes: git status" git status --short
    git checkout -q -- .
    cd "$work"
done

if command -v terraform >/dev/null; then
    mkdir -p "$work/terraform"
    cd "$work/terraform"
    awk 'BEGIN { for (i = 0; i < 10000; i++) printf "resource \"terraform_data\" \"n%05d\" { input = \"%d\" }\n", i, i }' >main.tf
    terraform init -input=false >/dev/null 2>&1 || true
    measured 'Terraform: plan of 10,000 terraform_data' terraform plan -input=false
    head -n 1000 main.tf >some && mv some main.tf
    measured 'Terraform: apply of 1,000 terraform_data' terraform apply -input=false -auto-approve -parallelism=1000
fi
