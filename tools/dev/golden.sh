# ./dev golden [NAME [ARGUMENT…]]: reference tensors anew, by the scripts in tools/make_golden/; without a name, by all of
# them. A person runs this and reviews what changed; tests only read what is committed.
NEEDS_SOURCES=3  # a script's exit code where what it reads cannot be fetched by itself; it has said what that is

dev_golden() {
  if ! cmp -s tools/make_golden/requirements.txt .venv-golden/.pome; then
    say "PyTorch, transformers and MLX into .venv-golden (about 1 GB; only for making goldens)"
    python3 -m venv --clear .venv-golden || die "python3 -m venv failed: run './dev setup' first"
    .venv-golden/bin/python -m pip install --quiet --disable-pip-version-check -r tools/make_golden/requirements.txt ||
      die "pip could not install tools/make_golden/requirements.txt: check the network and run again"
    cp tools/make_golden/requirements.txt .venv-golden/.pome
  fi
  name=${1:-}
  [ $# -eq 0 ] || shift
  if [ -n "$name" ]; then
    script=tools/make_golden/make_$name.py
    [ -e "$script" ] || die "there is no $script"
    make_golden "$script" "$@"
  else
    for script in tools/make_golden/make_*.py; do
      make_golden "$script"
    done
  fi
  git status --short tests/golden src
}

make_golden() {
  script=$1
  shift
  say "$script"
  status=0
  .venv-golden/bin/python "$script" "$@" || status=$?
  if [ $status -eq $NEEDS_SOURCES ]; then
    note "left as it is"
  elif [ $status -ne 0 ]; then
    die "$script failed"
  fi
}
