# ./dev check: everything that CI looks at; the tests come last.
. tools/dev/test.sh

dev_check() {
  check_started=$(seconds_now)
  ensure_setup check
  check_format
  check_commit_messages
  build_preset dev
  check_pure
  check_macos
  say "checked in $(elapsed "$check_started"); now the tests"
  dev_test
}

check_format() {
  say "format: clang-format $clang_format_version and cargo fmt"
  formatter=$(formatter)
  git_files '*.h' '*.cpp' | grep -v '^tools/macos/stubs/' | xargs "$formatter" --dry-run -Werror 2>build/format.log || {
    grep -o '^[^:]*:[0-9]*' build/format.log | sort -u | head -n 20 >&2
    die "these lines are not formatted: run '$formatter -i' on the files (build/format.log)"
  }
  if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --manifest-path bridge/Cargo.toml --check >build/format.log 2>&1 ||
      { head -n 20 build/format.log >&2; die "the Rust sources are not formatted: run 'cargo fmt' in bridge/"; }
  else
    note "skipped for Rust: this cargo has no fmt (rustup component add rustfmt)"
  fi
}

# Files that git knows, or would know; without git (an unpacked archive) those that are there.
git_files() {
  if have git && git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do [ ! -e "$file" ] || echo "$file"; done
  else
    find src apps tests bench tools -name '*.h' -o -name '*.cpp'
  fi
}

# A commit's first line stands alone in logs: at most 100 characters.
check_commit_messages() {
  have git && git rev-parse --git-dir >/dev/null 2>&1 || return 0
  long=$(git log -n 20 --format=%s | awk 'length($0) > 100')
  [ -z "$long" ] || die "a commit's first line is longer than 100 characters: $long"
}

# Rooms without MLX, with the echo engine behind the server.
check_pure() {
  build_preset pure
  say "the pure rooms' tests"
  supervised python3 tools/dev/run_rings.py --build build/pure unit simulation scenario >build/pure-tests.log 2>&1 ||
    { cat build/pure-tests.log >&2; die "a test of the pure build failed (build/pure-tests.log)"; }
  note "$(tail -n 1 build/pure-tests.log)"
}

check_macos() {
  if on_macos; then return 0; fi
  say "compile and link for arm64 macOS (zig $ziglang_version, mlx-metal $mlx_version)"
  macos_started=$(seconds_now)
  supervised python3 tools/macos/cross_build.py "$ziglang_version" "$mlx_version" pome
  note "in $(elapsed "$macos_started")"
}
