#!/usr/bin/env bash
# Reading over HTTP: from nginx, and from a server with faults. The same bits as from disk.
. "$(dirname "$0")/lib.sh"
need_python
support=$here/../support
# A proxy would be asked for 127.0.0.1, too.
unset http_proxy https_proxy HTTPS_PROXY ALL_PROXY all_proxy

"$RENDER_SHAPES" --count 30 --side 96 photos >/dev/null
millrace convert dataset photos web/shards --shard-bytes 512KiB --quiet >/dev/null
echo '{"text": "one"}' | gzip >web/list.jsonl.gz
# content_of DATASET [OPTION...]: a digest of the order, and of the pixels of all samples in it.
content_of() {
  rm -rf pixels
  millrace read "$@" --decode image --size 32 --flip --memory 64MiB --out pixels --json >read.json 2>read.errors ||
    fail "read $*: $(cat read.errors)"
  json 'd["order"]' read.json
  (cd pixels && find . -type f | sort | xargs cat | sha256sum)
}
expected=$(content_of web/shards)
[[ -n $expected ]] || exit 1

# start_nginx [DIRECTIVE...]: serves web/ at $url, and sets $nginx to its process.
start_nginx() {
  command -v nginx >/dev/null || skip "no nginx here"
  : "${port:=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')}"
  mkdir -p nginx
  cat >nginx/conf <<CONF
worker_processes 1;
daemon off;
master_process off;
pid $PWD/nginx/pid;
error_log $PWD/nginx/errors;
$([[ $(id -u) != 0 ]] || echo "user root;")
events {}
http {
  access_log $PWD/nginx/requests;
  limit_conn_zone \$server_port zone=servers:1m;
  client_body_temp_path $PWD/nginx; proxy_temp_path $PWD/nginx; fastcgi_temp_path $PWD/nginx;
  uwsgi_temp_path $PWD/nginx; scgi_temp_path $PWD/nginx;
  server { listen 127.0.0.1:$port ${tls:+ssl}; root $PWD/web; $* }
}
CONF
  nginx -c "$PWD/nginx/conf" 2>/dev/null &
  nginx=$!
  url=http${tls:+s}://127.0.0.1:$port
  for _ in $(seq 500); do
    ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    sleep 0.02
  done
  fail "nginx did not start: $(cat nginx/errors)"
}
# start_server [FAULT]: web_server.py, at $url.
start_server() {
  rm -f web/faults port
  "$python" "$support/web_server.py" web "$@" >port &
  server=$!
  until [[ -s port ]]; do kill -0 "$server" || fail "the server did not start"; sleep 0.02; done
  url=http://127.0.0.1:$(cat port)
}
before_case() { trap 'kill ${nginx:-} ${server:-} 2>/dev/null || :' EXIT; }

datasets_are_read_with_the_same_bits() {
  start_nginx
  same "$(content_of "$url/shards")" "$expected" "a folder"
  same "$(content_of "$url/shards/" --workers 1)" "$expected" "a folder with a slash, one worker"
  same "$(content_of "$url/shards/dataset.json")" "$expected" "dataset.json"
  same "$(content_of "$url/shards/shard-{000000..000001}.tar")" "$(content_of "web/shards/shard-{000000..000001}.tar")" "a pattern"
  same "$(millrace inspect "$url/shards" --json | sed "s|$url/|web/|g")" "$(millrace inspect web/shards --json)" "inspect"
  millrace verify "$url/shards" --quiet >/dev/null
  cp -r web/shards 'web/a b%'
  same "$(content_of "$url/a b%")" "$expected" "a name that must be encoded"
}
tars_are_converted() {
  start_nginx
  local from
  for from in shards/dataset.json 'shards/shard-{000000..000001}.tar' shards/shard-000000.tar; do
    rm -rf here there
    millrace convert dataset "web/$from" here --shard-bytes 100KiB --quiet >/dev/null
    millrace convert dataset "$url/$from" there --shard-bytes 100KiB --quiet >/dev/null
    same "$(cat there/*.tar | sha256sum)" "$(cat here/*.tar | sha256sum)" "$from"
  done
  rm -rf here there
  millrace convert dataset web/shards here --format folder --quiet >/dev/null
  millrace convert dataset "$url/shards/dataset.json" there --format folder --quiet >/dev/null
  diff -r here there -x .millrace-export.json >/dev/null || fail "the folders differ"
}
training_and_checkpoints() {
  start_nginx
  cat >train.yaml <<YAML
run:   {dir: web/run, steps: 6}
data:  {train: "$url/shards", memory: 32MiB, image: {size: 16}}
model: {layers: 1, heads: 2, width: 16, patch: 8}
batch: {global: 8, micro: 8}
checkpoint: {every: 3}
YAML
  millrace train train.yaml --quiet >/dev/null
  millrace train train.yaml --quiet --set run.dir=local --set data.train=web/shards >/dev/null
  local step=run/ckpt/step-00000006
  same "$(millrace ckpt hash local)" "$(millrace ckpt hash "$url/$step")" "ckpt hash"
  millrace verify "$url/$step" --quiet >/dev/null
  millrace ckpt copy "$url/$step" kept --quiet >/dev/null
  same "$(millrace ckpt hash kept)" "$(millrace ckpt hash local)" "ckpt copy"
  millrace convert checkpoint "$url/$step" there.safetensors --to full --quiet >/dev/null
  millrace convert checkpoint local here.safetensors --to full --quiet >/dev/null
  cmp here.safetensors there.safetensors
  millrace train train.yaml --quiet --set run.dir=init --set model.init="$url/$step" --set run.steps=1 >/dev/null
  refused "copy it with \`millrace ckpt copy\`" millrace train train.yaml --set run.dir=other --resume "$url/$step"
}
https_needs_a_known_certificate() {
  command -v openssl >/dev/null || skip "no openssl here"
  openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
  tls=yes start_nginx "ssl_certificate $PWD/cert.pem; ssl_certificate_key $PWD/key.pem;"
  refused "certificate" millrace inspect "$url/shards"
  contains "$(cat errors)" CURL_CA_BUNDLE
  same "$(CURL_CA_BUNDLE=cert.pem content_of "$url/shards")" "$expected" "with the certificate"
}
# Until the reader has opened the shards.
wait_for_reads() {
  for _ in $(seq 500); do
    ! grep -q 'GET /shards/shard-000001.tar' nginx/requests || return 0
    sleep 0.02
  done
  fail "no shard was read"
}
# The epoch takes seconds, in which the server is killed and comes back.
a_killed_server_loses_nothing() {
  rm -f nginx/requests
  start_nginx "limit_rate 300k;"
  content_of "$url/shards" --workers 1 >found &
  local reader=$!
  wait_for_reads
  kill -9 "$nginx"
  sleep 1
  kill -0 "$reader" || fail "the epoch was over, or failed, before the server came back: $(cat found read.errors)"
  start_nginx
  wait "$reader"
  same "$(cat found)" "$expected" "after the kill"
}
a_replaced_shard_is_noticed() {
  rm -f nginx/requests
  start_nginx "limit_rate 300k; limit_conn servers 1; limit_conn_log_level info;"
  millrace read "$url/shards" --workers 1 --memory 24MiB --order sequential --json >found 2>errors &
  local reader=$!
  wait_for_reads
  for shard in web/shards/*.tar; do
    cp "$shard" new
    touch -d 2020-01-01 new
    mv new "$shard"
  done
  ! wait "$reader" || fail "the epoch was read in spite of the replacement: $(cat found)"
  contains "$(cat errors)" "$url/shards/shard-00000" "Stale"
}
faults_change_nothing() {
  local fault
  for fault in cut reset busy throttled garbage shifted longer stalled plain; do
    start_server "$fault"
    same "$(content_of "$url/shards")" "$expected" "$fault"
    [[ $fault == plain || $(cat web/faults) -gt 0 ]] || fail "$fault: no fault was injected"
    kill "$server"
  done
}
errors_say_what_to_do() {
  start_server
  refused "found status 404; check the URL" millrace inspect "$url/none.tar"
  refused "cannot be listed" millrace inspect "$url/nothing"
  refused "the folder is not a dataset: $url/nothing" millrace read "$url/nothing"
  refused "found status 404" millrace read "$url/none.tar?signature=SECRET"
  [[ $(cat errors) != *SECRET* ]] || fail "the signature is shown: $(cat errors)"
  refused "has a user name" millrace inspect "http://me:SECRET@127.0.0.1/x.tar"
  [[ $(cat errors) != *SECRET* ]] || fail "the password is shown: $(cat errors)"
  refused "Could not resolve host" millrace inspect http://nowhere.invalid/x.tar
  refused "check the host's name and port" millrace inspect http://127.0.0.1:9/x.tar
  refused "the datasets of a mix are on different kinds of storage" millrace read --mix "$url/shards=1" --mix web/shards=1
  refused "copy the source to a local folder" millrace convert dataset "$url/list.jsonl.gz" x
  millrace index "$url/shards/shard-000000.tar" --quiet >/dev/null
  kill "$server"
  start_server whole
  refused "use a server that sends parts of files" millrace read "$url/shards"
}
nothing_is_written() {
  local key
  rm -f out errors train.yaml
  : >files
  find . | sort >files
  for key in "convert dataset photos URL" "convert checkpoint run URL --to full" "index web/shards/shard-000000.tar --dali URL" \
    "inspect web/shards --html URL" "read web/shards --out URL" "ckpt prune URL --keep-last 1" "ckpt sweep URL" "ckpt copy web/shards URL" \
    "bench ckpt URL" "manual --out URL"; do
    # shellcheck disable=SC2086
    refused "http:// is for reading only" millrace ${key/URL/http://127.0.0.1:9/x}
  done
  cat >train.yaml <<YAML
run:   {dir: runs/a, steps: 1}
data:  {train: web/shards, memory: 32MiB, image: {size: 16}}
model: {layers: 1, heads: 2, width: 16, patch: 8}
batch: {global: 8, micro: 8}
YAML
  for key in run.dir checkpoint.dir log.jsonl log.tensorboard; do
    refused "$key: https:// is for reading only" millrace train train.yaml --set "$key=https://127.0.0.1:9/x"
  done
  rm -f out errors train.yaml
  find . | sort | diff - files || fail "files changed"
}

run_cases datasets_are_read_with_the_same_bits tars_are_converted training_and_checkpoints https_needs_a_known_certificate a_killed_server_loses_nothing \
  a_replaced_shard_is_noticed faults_change_nothing errors_say_what_to_do nothing_is_written
