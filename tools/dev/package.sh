# ./dev package: a folder in dist/ that runs wherever it is put.
. tools/dev/build.sh

dev_package() {
  ensure_setup program
  build_preset release pome
  version=$(sed -n 's/^project(pome VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  folder=dist/pome-$version-$(uname -s | tr 'A-Z' 'a-z')-$(uname -m)
  say "package $folder"
  python3 tools/package.py build/release .venv "$folder"
  package_try "$folder"
  tar -czf "$folder.tar.gz" -C dist "$(basename "$folder")"
  note "$folder.tar.gz ($(du -k "$folder.tar.gz" | awk '{ printf "%.0f MB", $1 / 1024 }'))"
}

# Runs the copy from another place, where neither .venv nor the build folder is.
package_try() {
  place=$(mktemp -d)
  cp -R "$1" "$place/pome"
  (cd / && env -i PATH=/usr/bin:/bin HOME="$place" "$place/pome/bin/pome" check-env >"$place/out" 2>&1) ||
    { cat "$place/out" >&2; die "the packaged program does not run"; }
  if [ "$(uname -s)" = Linux ]; then
    outside=$(ldd "$place/pome/bin/pome" | awk '/\.venv|\/build\/|not found/')
    [ -z "$outside" ] || die "the packaged program still needs: $outside"
  fi
  rm -rf "$place"
  note "runs from another folder"
}
