#!/usr/bin/env bash
# A real Keystone (sqlite, Fernet tokens) on loopback, with the users alice (admin), olga (operator) and victor (viewer)
# of project `service`, and mallory (admin of project `other`); every password is `secret`.
#   keystone-up.sh DIR PORT SECONDS     prints its URL; SECONDS: how long tokens are valid
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?folder}; port=${2:?port}; seconds=${3:?seconds}
env=$("$here/../../../shared/peers/python-env.sh" keystone keystone==28.0.0 uwsgi)
mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
cat > "$dir/keystone.conf" <<CONF
[DEFAULT]
log_file = $dir/keystone.log
[database]
connection = sqlite:///$dir/keystone.sqlite
[token]
provider = fernet
expiration = $seconds
[fernet_tokens]
key_repository = $dir/fernet
[credential]
key_repository = $dir/credential
[cache]
enabled = false
CONF
manage() { "$env/bin/keystone-manage" --config-file "$dir/keystone.conf" "$@" > "$dir/manage.log" 2>&1 || { tail -5 "$dir/manage.log" >&2; exit 1; }; }
user=$(id -un); group=$(id -gn)
manage db_sync
# Else a request that reads and writes at once waits for itself.
"$env/bin/python" -c "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA journal_mode=WAL')" "$dir/keystone.sqlite"
manage fernet_setup --keystone-user "$user" --keystone-group "$group"
manage credential_setup --keystone-user "$user" --keystone-group "$group"
manage bootstrap --bootstrap-username alice --bootstrap-password secret --bootstrap-project-name service \
  --bootstrap-public-url "http://127.0.0.1:$port/v3"
cat > "$dir/serve.py" <<'PY'
import sys

from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
port, conf = int(sys.argv[1]), sys.argv[2]
sys.argv = ['keystone', '--config-file', conf]
from keystone.server.wsgi import initialize_public_application
class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass
make_server('127.0.0.1', port, initialize_public_application(), WSGIServer, Quiet).serve_forever()
PY
OS_KEYSTONE_CONFIG_DIR="$dir" "$env/bin/python" "$dir/serve.py" "$port" "$dir/keystone.conf" > "$dir/log" 2>&1 < /dev/null & echo $! > "$dir/pid"
url=http://127.0.0.1:$port/v3
for _ in $(seq 300); do
  if curl -sf -o /dev/null "$url"; then break; fi
  kill -0 "$(cat "$dir/pid")" 2> /dev/null || { tail -5 "$dir/log" >&2; exit 1; }
  sleep 0.2
done
"$env/bin/python" - "$url" <<'PY'
import json, sys, urllib.error, urllib.request
url, token = sys.argv[1], None
def call(method, path, body=None, tries=3):
    headers = {'Content-Type': 'application/json', **({'X-Auth-Token': token} if token else {})}
    request = urllib.request.Request(url + path, method=method, headers=headers, data=json.dumps(body).encode() if body else None)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        # On a busy machine a token expires before it is used.
        if error.code != 401 or token is None or tries == 1:
            raise
        login()
        return call(method, path, body, tries - 1)
    text = answer.read()
    return answer.headers, json.loads(text) if text else None
def login():
    global token
    token = None
    user = {'name': 'alice', 'domain': {'name': 'Default'}, 'password': 'secret'}
    scope = {'project': {'name': 'service', 'domain': {'name': 'Default'}}}
    body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': user}}, 'scope': scope}}
    token = call('POST', '/auth/tokens', body)[0]['X-Subject-Token']
login()
named = lambda kind: {each['name']: each['id'] for each in call('GET', '/' + kind)[1][kind]}
service, roles = named('projects')['service'], named('roles')
other = call('POST', '/projects', {'project': {'name': 'other', 'domain_id': 'default'}})[1]['project']['id']
for name in ('operator', 'admin_ucp_viewer'):
    roles[name] = call('POST', '/roles', {'role': {'name': name}})[1]['role']['id']
for name, project, role in (('olga', service, 'operator'), ('victor', service, 'admin_ucp_viewer'), ('nina', service, 'member'), ('mallory', other, 'admin')):
    user = call('POST', '/users', {'user': {'name': name, 'password': 'secret', 'domain_id': 'default'}})[1]['user']['id']
    call('PUT', f'/projects/{project}/users/{user}/roles/{roles[role]}')
PY
echo "$url"
