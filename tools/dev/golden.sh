# ./dev golden [NAME…]: reference tensors anew, by the scripts in tools/make_golden/. A person runs this and reviews
# what changed; tests only read what is committed.
dev_golden() {
  if [ ! -e .venv-golden/.pome ]; then
    say "PyTorch and transformers into .venv-golden (about 1 GB; only for making goldens)"
    python3 -m venv --clear .venv-golden || die "python3 -m venv failed: run './dev setup' first"
    .venv-golden/bin/python -m pip install --quiet --disable-pip-version-check -r tools/make_golden/requirements.txt ||
      die "pip could not install tools/make_golden/requirements.txt: check the network and run again"
    touch .venv-golden/.pome
  fi
  names=$*
  if [ -z "$names" ]; then
    names=$(for script in tools/make_golden/make_*.py; do basename "$script" .py | sed 's/^make_//'; done)
  fi
  for name in $names; do
    script=tools/make_golden/make_$name.py
    [ -e "$script" ] || die "there is no $script"
    say "golden $name"
    .venv-golden/bin/python "$script" || die "$script failed"
  done
  git status --short tests/golden src
}
