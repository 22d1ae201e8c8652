# Sourced by ./dev: words that every command uses. The working directory is the repository.
. tools/dev/versions.sh

say() { printf '%s\n' "==> $*"; }
note() { printf '%s\n' "    $*"; }
die() {
  printf '%s\n' "./dev: $*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# version_ge HAVE WANT: dotted numbers, missing parts count as 0.
version_ge() {
  awk -v a="$1" -v b="$2" 'BEGIN {
    n = split(a, x, /[.+~-]/); m = split(b, y, /[.+~-]/)
    for (i = 1; i <= (n > m ? n : m); i++) {
      if (x[i] + 0 > y[i] + 0) exit 0
      if (x[i] + 0 < y[i] + 0) exit 1
    }
    exit 0
  }'
}

# A service or a bare container may start without it; caches and cargo are below it.
[ -n "${HOME:-}" ] || HOME=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)
export HOME="${HOME:-/root}"

# rustup's place, and Homebrew's, for shells that were started without them.
for folder in "$HOME/.cargo/bin" /opt/homebrew/bin; do
  case ":$PATH:" in *":$folder:"*) ;; *) PATH=$PATH:$folder ;; esac
done
export PATH

on_macos() { [ "$(uname -s)" = Darwin ]; }

# One ./dev at a time in a folder: two builds of it at once would spoil each other. Needs python3, so it comes after the
# packages. Descriptor 9 is inherited, and with it the lock.
take_lock() {
  [ -z "${POME_DEV_LOCKED:-}" ] || return 0
  exec 9<>build/.lock
  python3 tools/dev/run/lock.py 9 || die "build/.lock could not be locked"
  POME_DEV_LOCKED=1
}

# supervised COMMAND…: what runs long ends with this script, also when that is killed.
supervised() { python3 tools/dev/run/supervise.py "$@"; }

cpu_count() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# A compiler that holds MLX's headers or Beast takes up to 1.5 GiB; more jobs than memory carries would swap.
job_count() {
  jobs=$(cpu_count)
  if [ -r /proc/meminfo ]; then
    fit=$(awk '/MemAvailable/ { n = int($2 / 1024 / 1536); print (n < 1 ? 1 : n) }' /proc/meminfo)
    [ "$fit" -ge "$jobs" ] || jobs=$fit
  fi
  echo "$jobs"
}

seconds_now() { date +%s; }

# elapsed SINCE -> "2 min 5 s"
elapsed() {
  passed=$(($(seconds_now) - $1))
  if [ $passed -lt 60 ]; then echo "$passed s"; else echo "$((passed / 60)) min $((passed % 60)) s"; fi
}

# For setup's first lines: what comes beside the packages, at the level that is being set up.
cold_download() {
  models=${POME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pome}
  rest=0
  [ -d .venv ] || rest=$((rest + 12))
  [ -d "${CARGO_HOME:-$HOME/.cargo}/registry/cache" ] || rest=$((rest + 15))
  [ -e "$models/smollm2" ] || rest=$((rest + 95))
  if [ "$level" != program ]; then
    [ -d .venv-tests ] || rest=$((rest + 15))
    [ -e "$models/gemma3-270m" ] || rest=$((rest + 242))
  fi
  # The compiler and the library of the macOS build.
  [ "$level" != check ] || [ -d build/macos/wheels ] || on_macos || rest=$((rest + 140))
  echo "$rest MB of wheels, crates and models"
}
cold_minutes() { echo $((4 + 26 / $(cpu_count))); }
