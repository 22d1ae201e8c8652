# ./dev docs: the pages that the program writes. Each line: file, then the program's arguments.
. tools/dev/build.sh

generated_pages="docs/cli.md:--help-markdown
docs/api-fields.md:--fields-markdown"

dev_docs() {
  ensure_setup program
  build_preset dev pome
  for page in $generated_pages; do
    build/dev/apps/pome "${page#*:}" >"build/page.md" || die "pome ${page#*:} failed"
    mv build/page.md "${page%%:*}"
    note "${page%%:*}"
  done
}

docs_fresh() {
  say "documents that the program writes"
  for page in $generated_pages; do
    build/dev/apps/pome "${page#*:}" >build/page.md || die "pome ${page#*:} failed"
    cmp -s build/page.md "${page%%:*}" || {
      diff "${page%%:*}" build/page.md | head -n 10 >&2 || true
      die "${page%%:*} is stale: run './dev docs' and commit it"
    }
  done
}
