#!/bin/sh
# Measures whole commands on generated sites, one line each: seconds by the clock, seconds of processor time, and the
# most memory at any time. Needs git, GNU time and, for the last lines, terraform.
#
#   benches/measure.sh DIR [WHAT ...]
#
# What: a number of machines; `groups` (10, 100 and 1,000 groups of 10,000 machines), `substitutions` (1,000 and 10,000
# into one document, and as many documents that take a value from one), `reports` (a plan of 100,000 machines in each
# format), `sites` (1,000 sites of ten machines that share their layers, beside one of them), `rollout` (3,500 sites
# of three machines), `terraform`. Where nothing is said: 1000 10000 100000 terraform.
#
# DIR is made, and holds the sites afterwards. TRUEUP names the program where it is not target/release/trueup.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
built=${CARGO_TARGET_DIR:-$here/target}/release
trueup=${TRUEUP:-$built/trueup}
generate=${GENERATE:-$built/examples/generate_site}
time=$(command -v gtime || echo /usr/bin/time)
work=$1
shift
[ $# -gt 0 ] || set -- 1000 10000 100000 terraform

measured() {
    what=$1
    shift
    if "$time" -o "$work/time" -f '%e s, %U + %S s of processor time, %M KiB' "$@" >"$work/out" 2>"$work/err"; then
        printf '%-60s %s\n' "$what" "$(cat "$work/time")"
    else
        printf '%-60s failed: %s\n' "$what" "$(tail -n 1 "$work/err")"
    fi
}

# Makes a site and commits it: its folder, and what the generator is given.
site() {
    folder=$1
    shift
    mkdir -p "$folder"
    "$generate" "$folder" "$@"
    cd "$folder"
    git init -q
    git config user.name measure
    git config user.email measure@example.org
    commit 'The site'
}

commit() {
    git add -A
    git commit -q -m "$1"
}

# Replaces a text in some files.
edit() {
    what=$1
    shift
    sed -i.bak "$what" "$@"
    for edited in "$@"; do
        rm -f "$edited.bak"
    done
}

# The commands that any site is measured with, and its plans after it was applied.
commands() {
    name=$1
    measured "$name: validate" "$trueup" validate
    measured "$name: render" "$trueup" render
    measured "$name: plan of all machines" "$trueup" plan
    measured "$name: apply, --parallelism 1000" "$trueup" apply --yes --parallelism 1000
    "$trueup" plan --save-observed "$work/seen.json" >"$work/out" 2>"$work/err"
    sleep 3
    rm -rf .git/trueup/.cache
    measured "$name: no-op plan, cold" "$trueup" plan --observed "$work/seen.json"
    measured "$name: no-op plan, warm" "$trueup" plan --observed "$work/seen.json"
}

sizes() {
    nodes=$1
    # Groups of 1,000 machines, each depending on the one before.
    site "$work/site-$nodes" "$nodes" 1 $(((nodes + 39) / 40)) 10 $(((nodes + 999) / 1000))
    # What was written must not be on its way to the disk while something is measured; a disk may go on
    # for a while behind what it promised.
    sync
    sleep $((nodes / 2000))
    measured "$nodes: bare parse of the same files" "$built/examples/bare_parse" .
    measured "$nodes: apply, --parallelism 1000" "$trueup" apply --yes --parallelism 1000
    measured "$nodes: plan, asking the simulator" "$trueup" plan --save-observed "$work/seen.json"
    sleep 3
    rm -rf .git/trueup/.cache
    measured "$nodes: no-op plan, cold" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: no-op plan, warm" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: no-op plan, warm, again" "$trueup" plan --observed "$work/seen.json"
    edit 's/- worker/- worker\n      - edited/' site/large/baremetal/0000/nodes-000000.yaml
    sleep 3
    measured "$nodes: plan, warm, one file changed" "$trueup" plan --observed "$work/seen.json"
    measured "$nodes: git diff --stat" git diff --stat
    measured "$nodes: git status" git status --short
    git checkout -q -- .
}

# Files of a hundred machines, so that groups and not files are what is measured.
groups() {
    for groups in 10 100 1000; do
        for how in '' independent 'independent by-label' 'independent by-tag'; do
            name="10000 in $groups groups ${how:-one after the other}"
            # shellcheck disable=SC2086
            site "$work/groups-$groups-$(echo "$how" | tr -d ' ')" 10000 100 1000 10 "$groups" $how
            commands "$name"
        done
    done
}

substitutions() {
    for number in 1000 10000; do
        for how in into-one from-one; do
            site "$work/$how-$number" 10 10 1 1 1 "$how=$number"
            commands "$how=$number"
        done
    done
}

# One plan in some formats: its name, the formats with a flag after a colon, and the plan's flags.
formats() {
    about=$1
    formats=$2
    shift 2
    for format in $formats; do
        flag=${format#*:}
        [ "$flag" != "$format" ] || flag=
        # shellcheck disable=SC2086
        measured "$about: ${format%:*} $flag" "$trueup" plan "$@" --format "${format%:*}" $flag
        printf '%60s %s\n' '' "$(wc -l <"$work/out") lines, $(wc -c <"$work/out") bytes"
        cp "$work/out" "$work/$(echo "$about-$format" | tr ' ,:' '----')"
    done
}

# What was printed is left in DIR, to be read.
reports() {
    name='100000 in 1000 groups, all to deploy'
    site "$work/reports-1000" 100000 100 2500 2 1000 independent by-tag
    formats "$name" 'text markdown'
    name='100000 in 100 groups'
    site "$work/reports-100" 100000 100 2500 2 100
    formats "$name, all to deploy" 'text text:--full text:--steps json html markdown'
    measured "$name: apply" "$trueup" apply --yes --parallelism 1000
    cp "$work/out" "$work/report-of-the-run"
    measured "$name: status" "$trueup" status
    measured "$name: status as JSON" "$trueup" status --format json
    measured "$name: log" "$trueup" log
    cp "$work/out" "$work/log"
    run=$("$trueup" log --format json | sed -n 's/^ *"run": "\(.*\)",$/\1/p' | head -n 1)
    measured "$name: show of the run" "$trueup" show "$run"
    measured "$name: show of the run as JSON" "$trueup" show "$run" --format json
    "$trueup" plan --save-observed "$work/seen.json" >"$work/out" 2>"$work/err"
    set -- --observed "$work/seen.json"
    formats "$name, nothing to do" 'text json markdown' "$@"
    # The machines of one of two profiles are built again.
    edit 's/^  primary_network: oam/&\n  platform:\n    kernel: hwe-16.04/' site/large/profiles/host/profile-0.yaml
    commit 'Another kernel'
    formats "$name, half to redeploy, blocked" 'text markdown' "$@"
    formats "$name, half to redeploy" 'text text:--full json html markdown' "$@" --allow-redeploy all
}

# How often the first figure of one line goes into that of another.
ratio() {
    awk -v all="$2" -v one="$1" 'BEGIN { split(all, a, " "); split(one, o, " "); printf "%60s %.1f times by the clock\n", "", a[1] / o[1] }'
}

# All sites of a repository beside one of them, one after the other in the same run: many charts and one, in the layers.
sites() {
    for documents in 400 1; do
        site "$work/sites-$documents" 10 10 1 10 1 sites=1000 "from-one=$documents"
        sync
        sleep 3
        for command in validate plan 'diff --rendered --base HEAD'; do
            about="layers with $documents charts: $command"
            # shellcheck disable=SC2086
            measured "$about, one site" "$trueup" $command --site site-0500
            one=$(cat "$work/time")
            # shellcheck disable=SC2086
            measured "$about, 1000 sites" "$trueup" $command --all-sites
            ratio "$one" "$(cat "$work/time")"
        done
    done
}

# A rollout of 3,500 sites of three machines, of which the first has its soak; beside the plan of one site.
rollout() {
    site "$work/rollout" 3 3 1 1 1 sites=3500
    mkdir rollouts
    printf '%s\n' 'schema: trueup/Rollout/v1' 'metadata: {name: fleet}' 'data:' '  soak: 24h' \
        '  phases: [{sites: [site-0001]}, {rest: true}]' >rollouts/fleet.yaml
    commit 'A rollout'
    git init -q --bare "$work/rollout.git"
    git remote add origin "$work/rollout.git"
    git push -q -u origin HEAD
    sync
    sleep 3
    measured 'rollout: plan of one site' "$trueup" plan --site site-0500
    one=$(cat "$work/time")
    measured 'rollout: plan of 3500 sites' "$trueup" rollout plan fleet
    ratio "$one" "$(cat "$work/time")"
    measured 'rollout: next, which begins one site' "$trueup" rollout next fleet
    measured 'rollout: next, with nothing due' "$trueup" rollout next fleet
    ratio "$one" "$(cat "$work/time")"
    measured 'rollout: status' "$trueup" rollout status fleet
}

terraform_beside() {
    mkdir -p "$work/terraform"
    cd "$work/terraform"
    awk 'BEGIN { for (i = 0; i < 10000; i++) printf "resource \"terraform_data\" \"n%05d\" { input = \"%d\" }\n", i, i }' >main.tf
    terraform init -input=false >/dev/null 2>&1 || true
    measured 'Terraform: plan of 10,000 terraform_data' terraform plan -input=false
    head -n 1000 main.tf >some && mv some main.tf
    measured 'Terraform: apply of 1,000 terraform_data' terraform apply -input=false -auto-approve -parallelism=1000
}

mkdir -p "$work"
work=$(cd "$work" && pwd)
for what in "$@"; do
    cd "$work"
    case $what in
    groups | substitutions | reports | sites | rollout) "$what" ;;
    terraform) ! command -v terraform >/dev/null || terraform_beside ;;
    *) sizes "$what" ;;
    esac
done
