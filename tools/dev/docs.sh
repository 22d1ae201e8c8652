# ./dev docs: the pages that the code writes. Tests hold them against the code.
. tools/dev/build.sh

dev_docs() {
  ensure_setup program
  build_preset dev pome pome_api_fields
  build/dev/apps/pome --help-markdown >build/page.md || die "pome --help-markdown failed"
  mv build/page.md docs/cli.md
  # The table of request fields is written by the test that compares it.
  UPDATE=1 build/dev/tests/server/pome_api_fields --gtest_brief=1 || die "the fields' page was not written"
  note "docs/cli.md and docs/api-fields.md"
}
